"""OpenAI Agents on foldlog: the session of a run, and an agent that goes on in a run.

    from foldlog.integrations.openai_agents import FoldlogRunner, FoldlogSession

The contracts are `agents.memory.Session`, and what openai-agents' own sessions do beyond it, and
`agents.Model`:
https://github.com/openai/openai-agents-python/tree/main/src/agents
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import agents.memory as _memory  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("openai-agents", _error) from _error

from foldlog.integrations.calls import StepOptions
from foldlog.integrations.openai_agents.runner import FoldlogRunner
from foldlog.integrations.openai_agents.session import FoldlogSession

__all__ = ["FoldlogRunner", "FoldlogSession", "StepOptions"]
