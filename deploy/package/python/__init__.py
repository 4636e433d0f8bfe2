"""Where the program of this wheel lies. `trireme` is on the PATH of the environment; this is for those who start it from Python."""
import os
import sysconfig


def program() -> str:
    """The path of the trireme program that was installed with this module."""
    name = os.path.join(sysconfig.get_path("scripts"), "trireme")
    user = os.path.join(sysconfig.get_path("scripts", f"{os.name}_user"), "trireme")
    return name if os.path.exists(name) or not os.path.exists(user) else user


