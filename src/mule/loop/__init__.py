"""The interpreter: one model/tool loop, generic in the message type, that every door translates onto.

`decide` says what comes next, `interpret` does it; `answer` performs one model call, `batch` the tool
calls of one answer, `report` tells the listener.
"""
