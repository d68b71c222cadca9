"""Pi's model/tool loop as typed effects. The canonical interface is `mule.effect`."""

__version__ = "0.1.0"
