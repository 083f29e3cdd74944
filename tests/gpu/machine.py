"""What the machine is: recorded with every figure. Only reads; sets nothing."""
import ctypes
import datetime
import glob
import importlib.metadata
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys


def output_of(arguments, limit=30):
    """Standard output, or "" when the program is missing, fails or hangs."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def library_directories(bundle):
    """Where our programs find shared libraries: the bundle's, then CUDA's as Python's wheels bring
    them (so that both sides of a comparison call the same cuBLASLt), then the toolkit's."""
    found = [str(pathlib.Path(bundle) / "lib")]
    for root in dict.fromkeys(path for path in sys.path if path):
        found += sorted(glob.glob(f"{root}/nvidia/*/lib"))
    found += ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64"]
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def program_environment(bundle):
    """The environment of our own programs; Python's is left alone."""
    paths = library_directories(bundle) + [os.environ.get("LD_LIBRARY_PATH", "")]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(path for path in paths if path),
                REGATTA_PLUGIN_DIR=str(pathlib.Path(bundle) / "bin"))


def library_version(bundle, pattern, function, returns_size):
    """`path: version` of the first library that our programs would load, or "absent"."""
    for directory in library_directories(bundle):
        for path in sorted(glob.glob(f"{directory}/{pattern}")):
            try:
                call = getattr(ctypes.CDLL(path), function)
            except (OSError, AttributeError):
                continue
            if returns_size:
                call.restype = ctypes.c_size_t
                return f"{call()} ({os.path.basename(path)})"
            number = ctypes.c_int()
            return f"{number.value} ({os.path.basename(path)})" if call(ctypes.byref(number)) == 0 else "unknown"
    return "absent"


def package(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def gpu_state():
    """Clocks, temperature and power as they are."""
    line = output_of(["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw", "--format=csv,noheader"])
    return line.strip() or "no nvidia-smi"


def facts(bundle):
    line = output_of(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv,noheader"])
    fields = [field.strip() for field in line.splitlines()[0].split(",")] if line.strip() else ["none", "none", "", ""]
    nvcc = re.search(r"release ([\d.]+)", output_of([shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "--version"]))
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(errors="replace"))
    return {
        "gpu": fields[0], "driver": fields[1], "memory": fields[2], "compute_capability": fields[3],
        "gpu_state": gpu_state(), "nvcc": nvcc[1] if nvcc else "absent",
        "cublasLt": library_version(bundle, "libcublasLt.so.*", "cublasLtGetVersion", True),
        "nccl": library_version(bundle, "libnccl.so.*", "ncclGetVersion", False),
        "torch": package("torch"), "transformers": package("transformers"), "triton": package("triton"),
        "python": platform.python_version(), "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
    }


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
