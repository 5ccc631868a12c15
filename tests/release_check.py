"""`make release-check`: build wheel and sdist, install each into fresh environments, and use them as the README does.

Environments: without extras, with the README's extras, with all. The commands are those of the README; the page is that
of the example studies. Everything has a time limit. What was built stays in dist/.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
QUICK_START = [
    line[2:]
    for block in re.findall(r"```shell-session\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]
SECONDS = 900  # for one command


def run(*command, folder, code=0):
    """What a command prints in the folder, with the environment that is installed there."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ROUNDWISE", "VIRTUAL"))}
    env["PATH"] = f"{folder / 'env' / 'bin'}{os.pathsep}{env['PATH']}"
    command = [str(each) for each in command]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != code:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def install(folder, *packages):
    """Packages in a fresh environment in the folder, by uv where it is there."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    venv.create(folder / "env", with_pip=uv is None)
    python = folder / "env" / "bin" / "python"
    pip = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    run(*pip, "--quiet", "-c", ROOT / "constraints.txt", *packages, folder=folder)
    return python


def build(folder):
    """The wheel and the sdist, in dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(install(folder, "build"), "-m", "build", "--outdir", DIST, ROOT, folder=folder)
    return [next(DIST.glob(pattern)) for pattern in ("*.whl", "*.tar.gz")]


def check_without_extras(folder):
    """Simulations and plans work; whatever needs more says which extra."""
    run(
        "roundwise",
        "simulate",
        "-q",
        "best-arm",
        "--means",
        "1,0.5",
        "--policy",
        "wager",
        "--runs",
        "20",
        folder=folder,
    )
    run("sh", "-c", QUICK_START[0].partition(" --out")[0], folder=folder)
    new = ("new", "checkout", "--question", "best-arm", "--arms", "red,green", "--binary")
    for command, extra in ((new, "store"), (("serve", "--example"), "serve")):
        said = run("roundwise", *command, folder=folder, code=2)
        if f"pip install 'roundwise[{extra}]'" not in said:
            sys.exit(f"`roundwise {command[0]}` without extras does not name the extra '{extra}': {said}")


def check_quick_start(folder):
    """The README's commands, the record, and the page."""
    for command in QUICK_START:
        run("sh", "-c", command, folder=folder)
    said = run("roundwise", "verify", "checkout", folder=folder)
    if "is sound" not in said:
        sys.exit(said)
    run("roundwise", "report", "checkout", "--out", "report.xlsx", folder=folder)
    serve = [folder / "env" / "bin" / "roundwise", "serve", "--example", "--port", "0", "--json"]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = json.loads(server.stdout.readline())["page"]
            for page in ("/health", "/", "/studies/checkout", "/plan"):
                with urllib.request.urlopen(address + page, timeout=60) as answer:
                    answer.read()
        finally:
            server.terminate()
            server.wait(timeout=30)


def main():
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "build").mkdir()
        for built in build(Path(place) / "build"):
            for extras in ("", "[serve,frames]", "[all]"):
                folder = Path(place) / f"{built.suffix[1:]}{extras}"
                folder.mkdir()
                install(folder, f"roundwise{extras} @ {built.as_uri()}")
                (check_quick_start if extras else check_without_extras)(folder)
                print(f"{built.name}{extras}: works", flush=True)
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
