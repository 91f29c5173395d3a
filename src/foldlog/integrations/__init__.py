"""Adapters for agent frameworks, each with an extra: `pip install 'foldlog[langgraph]'`.

a2a.FoldlogTaskStore                        A2A: tasks, events, push configurations
agent_framework.FoldlogCheckpointStorage    Microsoft Agent Framework: checkpoints, history
assistant_ui.FoldlogResumableStreamStore    assistant-ui: resumable streams
autogen.TeamCheckpoints                     AutoGen: teams and runtimes
claude_agent.FoldlogSessionStore            Claude Agent SDK: transcripts
google_adk.FoldlogSessionService            Google ADK: sessions, memory, artifacts
langgraph.FoldlogSaver, FoldlogStore        LangGraph: checkpoints, long-term memory
openai_agents.FoldlogSession                OpenAI Agents: conversations, approvals
penguiflow.PenguiFlowStateStore             PenguiFlow: its whole StateStore
pydantic_ai.FoldlogConversationStore        Pydantic AI: conversations; agents as runs
"""
