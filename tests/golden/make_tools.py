"""Writes tests/golden/tools: what the real SDK's tools answer, and what they leave in the workspace.

    python make_tools.py          rewrites every case
    python make_tools.py --check  says which cases would change, and fails if any would

Needs openhands-sdk and openhands-tools 1.58.0. Members of a case:

    files   the workspace before: name -> base64; a name that ends with / is a folder
    vision  whether the model sees pictures
    steps   tool, arguments (JSON text), and then error (invalid arguments), failure (the tool raised) or observation
    after   the workspace afterwards
    times   when files changed, in seconds: name -> time

{W} stands for the workspace. If Annals differs on purpose, the step gives the reason in "ours".
"""

import base64
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from pathlib import Path

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
logging.disable(logging.CRITICAL)

from openhands.sdk import LLM, Agent, LocalWorkspace  # noqa: E402
from openhands.sdk.conversation.state import ConversationState  # noqa: E402
from openhands.sdk.tool.builtins import FinishTool, InvokeSkillTool, ThinkTool  # noqa: E402
from openhands.tools.apply_patch.definition import ApplyPatchTool  # noqa: E402
from openhands.tools.file_editor.definition import FileEditorTool  # noqa: E402
from openhands.tools.glob.definition import GlobTool  # noqa: E402
from openhands.tools.grep.definition import GrepTool  # noqa: E402
from openhands.tools.task_tracker.definition import TaskTrackerTool  # noqa: E402
from openhands.tools.terminal.definition import TerminalTool  # noqa: E402

HERE = Path(__file__).parent / "tools"
CLASSES = [
    TerminalTool, FileEditorTool, TaskTrackerTool, GlobTool, GrepTool, ApplyPatchTool, FinishTool, ThinkTool,
    InvokeSkillTool,
]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def plain(observation):
    """Returns an observation without the parts that depend on the machine, the version of bash or the time."""
    metadata = observation.get("metadata")
    if metadata is not None:
        for key in ["pid", "hostname", "username", "py_interpreter_path"]:
            metadata.pop(key, None)
        observation.pop("full_output_save_dir", None)
        for part in observation["content"]:
            # bash switches bracketed paste off and on around a command; tmux would not show that.
            part["text"] = part["text"].replace("\x1b[?2004l", "").replace("\x1b[?2004h", "").rstrip()
    return observation


class Bench:
    """A workspace with the real tools in it."""

    def __init__(self, files=None, vision=False, times=None):
        self.root = Path(os.path.realpath(tempfile.mkdtemp(prefix="annals-tools-")))
        self.work = self.root / "work"
        self.work.mkdir()
        self.files = {}
        for name, content in (files or {}).items():
            path = self.work / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                self.files[name] = ""
                continue
            content = content.encode() if isinstance(content, str) else content
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self.files[name] = base64.b64encode(content).decode()
        self.vision = vision
        self.times = times or {}
        for name, seconds in self.times.items():
            os.utime(self.work / name, (seconds, seconds))
        llm = LLM(model="gpt-4o" if vision else "openai/text-only", api_key="x", usage_id="tools")
        self.state = ConversationState.create(
            id=uuid.UUID(int=7), agent=Agent(llm=llm, tools=[]),
            workspace=LocalWorkspace(working_dir=str(self.work)), persistence_dir=str(self.root / "keep"),
        )
        self.tools = {}
        self.steps = []

    def tool(self, name):
        if name not in self.tools:
            cls = next(cls for cls in CLASSES if cls.name == name)
            more = {"terminal_type": "subprocess", "no_change_timeout_seconds": 1} if name == "terminal" else {}
            self.tools[name] = cls.create(self.state, **more)[0]
            if name == "terminal":
                self.settle()
        return self.tools[name]

    def settle(self):
        """Waits for the prompt, because the reference takes a late prompt for the end of the next command."""
        session = self.tools["terminal"].executor.session
        end = time.time() + (0 if session.is_running() else 10)
        while True:
            time.sleep(0.4)
            screen = session.terminal.read_screen()
            if screen.count("###PS1JSON###") == 1 and screen.rstrip().endswith("###PS1END###"):
                return
            if time.time() > end:
                return
            session.terminal.clear_screen()

    def run(self, name, /, ours=None, **arguments):
        """Runs one call. `ours` is the reason why Annals answers differently. Such an answer is not compared."""
        tool = self.tool(name)
        arguments = json.dumps(arguments, ensure_ascii=False)
        filled = json.loads(arguments.replace("{W}", str(self.work)))
        step = {"tool": name, "arguments": arguments}
        try:
            action = tool.action_from_arguments(filled)
        except ValueError as error:
            step["error"] = str(error)
        else:
            try:
                observation = tool(action, None)
                if name == "terminal":
                    self.settle()
                step["observation"] = plain(json.loads(observation.model_dump_json(exclude_none=True)))
            except Exception as error:  # noqa: BLE001
                step["failure"] = str(error)
        if ours:
            step["ours"] = ours
        self.steps.append(step)
        return self

    def case(self):
        after = {}
        for path in sorted(self.work.rglob("*")):
            if path.is_file():
                after[str(path.relative_to(self.work))] = base64.b64encode(path.read_bytes()).decode()
        keep = self.root / "keep" / "TASKS.json"
        kept = {"kept": keep.read_text()} if keep.exists() else {}
        times = {"times": self.times} if self.times else {}
        case = {"files": self.files, "vision": self.vision, **times, "steps": self.steps, "after": after, **kept}
        text = json.dumps(case, ensure_ascii=False).replace(str(self.work), "{W}")
        shutil.rmtree(self.root)
        return json.loads(text)


CASES = {}


def built(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


@built
def schemas():
    """Names, annotations and arguments as the model sees them, without the prose."""

    def bare(value):
        if isinstance(value, dict):
            return {
                key: bare(entry) for key, entry in value.items()
                if key != "description" or not isinstance(entry, str)
            }
        return [bare(entry) for entry in value] if isinstance(value, list) else value

    bench = Bench()
    tools = []
    for cls in CLASSES:
        tool = bench.tool(cls.name)
        shown = tool.to_openai_tool(add_security_risk_prediction=True)["function"]
        definition = json.loads(tool.model_dump_json(exclude_none=True))
        tools.append({"definition": bare(definition), "parameters": bare(shown["parameters"])})
    shutil.rmtree(bench.root)
    return {"tools": tools}


@built
def words():
    bench = Bench()
    bench.run("finish", message="All done.").run("finish").run("finish", message=5).run("think", thought="hm")
    bench.run("think", thought="a", more=1).run("finish", message="a", kind="X")
    bench.run("finish", comand="ls -la /some/very/long/path/that/goes/on and on and on", b="second")
    bench.run("file_editor", command="rename", path="/x").run("file_editor", command="view")
    bench.run("file_editor", command="view", path="/a", insert_line=-1, view_range=[1, "x", 2.5])
    bench.run("task_tracker", command="plan", task_list=[{"notes": "n"}, {"title": 1, "status": "later"}, 5])
    bench.run("terminal", comand="ls", timeout=-1, reset="maybe").run("terminal", command=["ls"], is_input=2)
    for tool in bench.tools.values():
        if tool.name == "terminal":
            tool.executor.close()
    return bench.case()


@built
def tasks():
    bench = Bench()
    bench.run("task_tracker").run("task_tracker", command="plan")
    bench.run(
        "task_tracker", command="plan",
        task_list=[
            {"title": "Grüße 🙏", "notes": "with \"notes\"\n", "status": "In Progress"},
            {"title": "b", "status": "completed"}, {"title": "c", "status": "pending"}, {"title": "d"},
        ],
    )
    return bench.run("task_tracker", command="view", task_list=[{"title": "ignored"}]).case()


@built
def editor_view():
    tree = {f"src/{name}": "x\n" for name in ["b.py", "a.py", ".hidden", "deep/c.py", "deep/er/d.py"]}
    bench = Bench({
        **tree, "one.txt": "a\nb\nc\nd\ne\n", "no_end.txt": "a\nb", "empty.txt": "", "form.txt": "a\x0cb\u2028c\nd\n",
        "crlf.txt": "a\r\nb\r\nc\rd\n", ".git/x": "", "long.txt": "".join(f"line {n}\n" for n in range(3000)),
        "empty/": "", "nul.bin": b"\x00\x01\x02\x03\x00\x05" * 100, "pic.png": PNG, "PIC.JPG": PNG,
    }, vision=True)
    view = lambda path, **more: bench.run("file_editor", command="view", path=path, **more)  # noqa: E731
    for name in ["one.txt", "no_end.txt", "empty.txt", "form.txt", "crlf.txt", "long.txt", "nul.bin", "pic.png",
                 "PIC.JPG", "src", "src/deep", "empty", "missing", "./src//a.py", "src/../one.txt", "one.txt/"]:
        view("{W}/" + name)
    view("{W}")
    for span in [[2, 3], [2, -1], [5, 9], [0, 2], [6, 7], [3, 2], [1], [1, 2, 3], [], [2, -5], ["1", 2.0]]:
        view("{W}/one.txt", view_range=span)
    view("{W}/empty.txt", view_range=[1, 1])
    view("{W}/src", view_range=[1, 2])
    view("one.txt")
    view("nowhere.txt")
    view("")
    return bench.case()


@built
def editor_change():
    bench = Bench({"a.py": "def f():\n    return 1\n\n\ndef g():\n    return 1\n", "b.txt": "one\ntwo\n", "dir/": ""})
    run = lambda command, path, **more: bench.run("file_editor", command=command, path="{W}/" + path, **more)  # noqa: E731
    run("create", "new.txt", file_text="hello\nworld\n")
    run("create", "new.txt", file_text="again")
    run("create", "none.txt")
    run("create", "dir", file_text="x")
    run("create", "empty.txt", file_text="")
    run("undo_edit", "new.txt")
    run("undo_edit", "new.txt")
    run("str_replace", "a.py", old_str="return 1", new_str="return 2")
    run("str_replace", "a.py", old_str="def g():\n    return 1", new_str="def g():\n    return 2\n\n\n# end")
    run("str_replace", "a.py", old_str="nowhere", new_str="x")
    run("str_replace", "a.py", old_str="  # end  \n", new_str="  # END  ")
    run("str_replace", "a.py", old_str="x")
    run("str_replace", "a.py", new_str="x")
    run("str_replace", "a.py", old_str="x", new_str="x")
    run("str_replace", "a.py", old_str="def f", new_str="")
    run("str_replace", "missing.py", old_str="a", new_str="b")
    run("str_replace", "dir", old_str="a", new_str="b")
    run("str_replace", "b.txt", old_str="", new_str="b")
    run("str_replace", "empty.txt", old_str="", new_str="now\nwith text")
    run("insert", "b.txt", insert_line=1, new_str="between\nlines")
    run("insert", "b.txt", insert_line=0, new_str="first")
    run("insert", "b.txt", insert_line=5, new_str="last\n")
    run("insert", "b.txt", insert_line=99, new_str="x")
    run("insert", "b.txt", new_str="x")
    run("insert", "b.txt", insert_line=1)
    run("insert", "b.txt", insert_line="2", new_str="")
    for _ in range(6):
        run("undo_edit", "b.txt")
    run("undo_edit", "a.py")
    run("view", "a.py")
    return bench.case()


@built
def editor_encodings():
    russian = "Привет, мир!\nКак дела? Это длинный текст на русском языке.\n" * 3
    bench = Bench({
        "mark.txt": b"\xef\xbb\xbfa\nb\n", "u16.txt": "a\nb \u00e4\n".encode("utf-16"),
        "cp1251.txt": russian.encode("cp1251"), "sjis.txt": ("こんにちは世界、これはテストです。\n" * 5).encode("cp932"),
        "gbk.txt": ("你好世界，这是一个测试文件。\n" * 5).encode("gb18030"), "utf8.txt": "Grüße 🙏\nzwei\n",
    })
    edit = lambda path, old, new: bench.run(  # noqa: E731
        "file_editor", command="str_replace", path="{W}/" + path, old_str=old, new_str=new
    )
    edit("mark.txt", "b", "β")
    edit("u16.txt", "ä", "ö")
    edit("cp1251.txt", "Привет, мир!\nКак", "x")
    bench.run("file_editor", command="insert", path="{W}/cp1251.txt", insert_line=1, new_str="Добрый день")
    bench.run("file_editor", command="view", path="{W}/cp1251.txt")
    bench.run("file_editor", command="view", path="{W}/sjis.txt")
    bench.run("file_editor", command="view", path="{W}/gbk.txt")
    bench.run("file_editor", command="insert", path="{W}/cp1251.txt", insert_line=0, new_str="→ 世界")
    edit("utf8.txt", "🙏", "🙏🙏")
    return bench.case()


@built
def searches():
    files = {
        "a.py": "import os\n", "b.py": "def main():\n    Print(1)\n", "src/c.py": "print(2)\n", "src/deep/d.js": "log('x')\n",
        "src/deep/e.ts": "log('y')\n", ".hidden/f.py": "print(3)\n", "g.txt": "plain text\nLOG here\n", "h.bin": b"\x00print\x00",
        **{f"many/{number:03}.md": f"number {number}\n" for number in range(105)},
    }
    times = {name: 1_700_000_000 + at for at, name in enumerate(files)}
    bench = Bench(files, times=times)
    glob = lambda pattern, **more: bench.run("glob", pattern=pattern, **more)  # noqa: E731
    grep = lambda pattern, **more: bench.run("grep", pattern=pattern, **more)  # noqa: E731
    glob("**/*.py")
    glob("*.py")
    glob("src/**/*.py", ours="ripgrep would take the pattern from the folder that the program runs in")
    glob("*.rs")
    glob("*.md")
    glob("*.js", path="{W}/src")
    glob("{W}/src/**/*.ts")
    glob("{W}/many/00?.md")
    glob("*", path="{W}/nowhere")
    glob("*.{js,ts}", ours="the reference without ripgrep knows no braces")
    glob("[", ours="the reference takes it for a file's name")
    grep("print\\(")
    grep("log")
    grep("log", include="*.txt")
    grep("log", include="*.{js,ts}", ours="the reference filters them out once more")
    grep("nothing at all")
    grep("number")
    grep("print", path="{W}/src")
    grep("x", path="{W}/nowhere")
    grep("(", ours="in the words of another engine")
    grep("no.such", include="*.md")
    return bench.case()


ECHO = "the reference shows the echo of the lines"


@built
def terminal():
    bench = Bench({"a.txt": "one\n"})
    run = lambda command, **more: bench.run("terminal", command=command, **more)  # noqa: E731
    run("")
    run("C-c", is_input=True)
    run("echo hi")
    run("  echo 'a  b'  ")
    run("cd /usr; pwd")
    run("false")
    run("export FOO=bar; f() { return 7; }")
    run("echo $FOO; echo err >&2; f")
    run("no_such_command")
    run("echo (")
    run("cd {W}; cat a.txt")
    run("printf 'no end'; printf '\\ttab \\033[31mred\\033[0m caf\\xc3\\xa9 \\xff'")
    run("echo a\necho b")
    run("cat <<EOF\nhello\nEOF", ours=ECHO)
    run("for i in 1 2; do\n echo $i\ndone", ours=ECHO)
    run("[[ -f a.txt ]] && { echo yes; }")
    run('["a"]')
    run("{'a': 1}")
    run("[[1, 2], ['it\\'s']]")
    run("x", is_input=True, reset=True)
    run("read -p 'name? ' x; echo \"hello $x\"")
    run("bob", is_input=True)
    run("cat", timeout=0.5)
    run("one", is_input=True)
    run("ls")
    run("")
    run("C-d", is_input=True)
    run("sleep 60", timeout=1)
    run("C-c", is_input=True)
    case = bench.case()
    for tool in bench.tools.values():
        tool.executor.close()
    return case


COMMANDS = [
    "ls", "ls; pwd", "ls && pwd", "ls\npwd", "ls\n\n\npwd\n", "ls # one\n# two\npwd", "# only\nls", "ls &\npwd", "a |\nb",
    "a &&\n b", "a ||\nb\nc", "a \\\n b", "a;\nb", "echo 'a\nb'", 'echo "a\nb"', 'echo "$(a\nb)"', "echo `a\nb`", "x=$(\na\n)\ny",
    "cat <<EOF\nhi\nEOF", "cat <<EOF\nhi\nEOF\necho after", "cat <<'EOF' > f\n$x\nEOF\npython f", "cat <<-EOF\n\thi\n\tEOF\nls",
    "a\ncat <<EOF\nb\nc\nEOF\n", "for i in 1 2; do\n echo $i\ndone", "for i in 1 2\ndo\necho\ndone\nls", "while true; do\nx\ndone",
    "if a; then\nb\nelif c; then\nd\nelse\ne\nfi\nf", "case $x in\na) b;;\n*) c\n;;\nesac\nd", "f() {\n a\n}\nf", "f()\n{\na\n}",
    "function f {\na\n}\nf", "(a\nb)\nc", "{ a\nb\n}", "[[ -f x &&\n -f y ]] && z", "(( x++ ))\ny", "a=(1\n2\n3)\nb", "echo $((1 +\n2))",
    "echo ${x:-a\nb}", "diff <(a\nb) c\nd", "echo (", "echo 'open", "a\n)", "cd /x &&\nmake\nls", "echo a \\; echo b", "a 2>&1 | b\nc",
    "python3 -c 'import os\nprint(1)'", "git commit -m \"x\n\ny\"", "echo done\necho fi", "echo x > done\nls", "! a\nb", "time a\nb",
    "for x in done; do y; done\nz", "echo {\nx", "until a; do b; done; c\nd", "cat <<A <<B\na\nA\nb\nB\nc", "select x in a; do b; done\nc",
    "export A=1\nexport B=2\nenv", "a | b |\nc\nd", "echo $'a\\'b\nc'\nd", "a # c'x\nb", "echo a#b\nc", "cat <<< x\ny", "function f()\n{ a\n}\ng",
    "if true\nthen\n cat <<EOF\na\nEOF\nfi\nb", "echo \"a\\\"b\nc\"\nd", "while read l; do echo $l; done < f\ng", "case a in (a) b;; esac\nc",
    "trap 'a\nb' EXIT\nc", "find . -exec a {} \\;\nb", "a>b\nc", "a 2>/dev/null &\nwait", "coproc a\nb", "echo {a,b}\nc", "echo }\nb",
    "a() ( b\nc )\nd", "[ -f x ]\ny", "if [ -f x ]; then a; fi\nb", "for ((i=0;i<3;i++)); do\na\ndone\nb",
]


@built
def split():
    """Where one command ends and the next begins."""
    from openhands.tools.terminal.utils.command import split_bash_commands

    return {"cases": [{"text": text, "commands": split_bash_commands(text)} for text in COMMANDS]}


SCHEMAS = [
    {"type": "object"}, {"type": "object", "properties": {}}, {"type": "object", "properties": {"a": {"type": "string", "format": "uri",
     "default": "x", "title": "A"}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "integer", "description": "inner"}], "description": "outer"},
     "b": {"anyOf": [{"type": "null"}]}, "c": {"anyOf": [True, {"type": "string"}]}, "d": {"anyOf": [False]}, "e": True, "f": False}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
     "$defs": {"A": {"type": "object", "description": "an A", "properties": {"a": {"$ref": "#/$defs/A"}, "n": {"type": "integer"}}}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}, "b": {"type": ["string", "null"], "enum": ["x", None]},
     "c": {"type": "array", "items": True}, "d": {"type": "array"}, "e": {"properties": {"x": {}}}}},
]


@built
def simplified():
    """An MCP server's schema as the model receives it, before security_risk and summary are added."""
    from openhands.sdk.tool.schema import _process_schema_node

    cases = []
    for schema in SCHEMAS:
        result = _process_schema_node(schema, schema.get("$defs", {}))
        result.setdefault("properties", {})
        dumped = [json.dumps(value, separators=(",", ":")) for value in (schema, result)]
        cases.append({"schema": dumped[0], "simplified": dumped[1]})
    return {"cases": cases}


def written(case):
    lines = []
    for key, value in case.items():
        if isinstance(value, list):
            body = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value)
            lines.append(f" {json.dumps(key)}: [\n{body}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    # A shell that starts this in the background has it ignore the signal of C-c, and so does all that this starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    check = "--check" in sys.argv[1:]
    only = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    HERE.mkdir(exist_ok=True)
    changed = []
    for name, function in CASES.items():
        if only and name not in only:
            continue
        path = HERE / f"{name}.json"
        if not check:
            path.write_text(written(function()))
            continue
        # The reference's terminal guesses where a command ends, and may guess wrong on a busy machine.
        tries = 3 if name == "terminal" else 1
        if not path.exists() or all(path.read_text() != written(function()) for _ in range(tries)):
            changed.append(name)
    if check and not only:
        changed += [path.name for path in HERE.glob("*.json") if path.stem not in CASES]
    if changed:
        sys.exit("would change: " + ", ".join(changed))


if __name__ == "__main__":
    main()
