"""Logs as earlier versions wrote them. They are never changed, and every version reads them."""
