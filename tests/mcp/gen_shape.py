# SPDX-License-Identifier: Apache-2.0
"""What a generated module may look like, and nothing else: whatever a server says, it must not become code."""
import ast
import io
import re
import tokenize

TYPING = ("Any", "Dict", "List", "Literal", "Optional", "Tuple", "Union")
IMPORTS = {
    "mcptools": [("enum", 0, ("Enum",)), ("typing", 0, TYPING), ("mcptools._runtime", 0, ("call", "call_async")),
                 (None, 1, ("Arguments", "BaseModel", "Field"))],
    "ipybox": [("enum", 0, ("Enum",)), ("typing", 0, TYPING), ("ipybox.mcp.run", 0, ("run_sync",)),
               (None, 1, ("SERVER_PARAMS", "BaseModel", "Field"))],
}
ARGUMENTS = {"alias": str, "pattern": str, "ge": (int, float), "gt": (int, float), "le": (int, float), "lt": (int, float), "multiple_of": (int, float),
             "min_length": int, "max_length": int, "min_items": int, "max_items": int}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
FUNCTIONS = {
    "mcptools": """
def run(params: Optional[Params] = None, /, **fields: Any) -> {result}:
    return call({server}, {tool}, Arguments(Params, params, fields), {model})
async def run_async(params: Optional[Params] = None, /, **fields: Any) -> {result}:
    return await call_async({server}, {tool}, Arguments(Params, params, fields), {model})
run_async.__doc__ = run.__doc__
""",
    "ipybox": """
def {module}(params: Params) -> str:
    return run_sync({tool}, params.model_dump(exclude_none=True), SERVER_PARAMS)
""",
}


class Shape:
    """Looks at one module; strings: all that the input has."""

    def __init__(self, text, layout, server, tool, module, strings):
        self.text, self.layout, self.server, self.tool, self.module, self.strings = text, layout, server, tool, module, strings
        self.classes = {}

    def must(self, condition, node):
        assert condition, f"{ast.dump(node)[:300] if isinstance(node, ast.AST) else node!r}\n{self.text[:3000]}"

    def check(self):
        self.must(re.fullmatch(r"[\n -~]*", self.text), "other characters than those of ASCII")
        comments = [t.string for t in tokenize.generate_tokens(io.StringIO(self.text).readline) if t.type == tokenize.COMMENT]
        self.must(len(comments) == 1 and self.text.startswith(comments[0] + "\n"), comments)
        body = ast.parse(self.text, feature_version=(3, 9)).body
        imports = [(n.module, n.level, tuple(a.name for a in n.names)) for n in body[:4] if isinstance(n, ast.ImportFrom)]
        self.must(imports == IMPORTS[self.layout], imports)
        self.must(all(a.asname is None for n in body[:4] for a in n.names), imports)
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.must(NAME.fullmatch(node.name) and node.name not in self.classes, node)
                self.classes[node.name] = "enum" if len(node.bases) == 2 else "model"
        self.must(self.classes.get("Params") == "model", "no Params")
        at = 4
        while isinstance(body[at], ast.ClassDef):
            self.a_class(body[at])
            at += 1
        while isinstance(body[at], ast.Expr):
            call = body[at].value
            self.must(isinstance(call, ast.Call) and not call.args and not call.keywords and isinstance(call.func, ast.Attribute) and
                      call.func.attr == "model_rebuild" and isinstance(call.func.value, ast.Name) and self.classes.get(call.func.value.id) == "model", call)
            at += 1
        self.functions(body[at:])
        return self

    def functions(self, nodes):
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and len(node.body) == 2:
                self.a_doc(node.body.pop(0))
        result = "Result" in self.classes
        want = FUNCTIONS[self.layout].format(server=repr(self.server), tool=repr(self.tool), module=self.module, result="Result" if result else "str",
                                             model="Result" if result else "None")
        got = [ast.dump(n) for n in nodes]
        self.must(got == [ast.dump(n) for n in ast.parse(want).body], got)

    def a_doc(self, node):
        self.must(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant), node)
        self.a_string(node.value)

    def a_string(self, node):
        self.must(isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in self.strings, node)

    def a_class(self, node):
        bases = [b.id for b in node.bases if isinstance(b, ast.Name)]
        self.must(len(bases) == len(node.bases) and not node.decorator_list, node)
        if bases == ["str", "Enum"]:
            self.must(not node.keywords and node.body, node)
            for line in node.body:
                self.must(isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name), line)
                self.must(NAME.fullmatch(line.targets[0].id), line)
                self.a_string(line.value)
            return
        self.must(bases == ["BaseModel"], node)
        self.must([(k.arg, k.value.value) for k in node.keywords] in ([], [("extra", "forbid")]), node)
        for line in node.body:
            if isinstance(line, ast.AnnAssign):
                self.must(isinstance(line.target, ast.Name) and line.simple and NAME.fullmatch(line.target.id), line)
                self.a_type(line.annotation)
                if line.value is not None:
                    self.a_default(line.value)
            elif not isinstance(line, ast.Pass):
                self.a_doc(line)

    def a_type(self, node):
        if isinstance(node, ast.Name):
            self.must(node.id in ("str", "int", "float", "bool", "Any") or node.id in self.classes, node)
        elif isinstance(node, ast.Constant):
            self.must(node.value is None or node.value in self.classes, node)
        else:
            self.must(isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in TYPING, node)
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for one in inner:
                if node.value.id == "Literal":
                    self.a_constant(one)
                else:
                    self.a_type(one)

    def a_default(self, node):
        if not isinstance(node, ast.Call):
            self.a_constant(node)
            return
        self.must(isinstance(node.func, ast.Name) and len(node.args) == 1, node)
        if node.func.id != "Field":
            self.must(self.classes.get(node.func.id) == "enum" and not node.keywords, node)
            self.a_string(node.args[0])
            return
        if not (isinstance(node.args[0], ast.Constant) and node.args[0].value is ...):
            self.a_default(node.args[0])
        for k in node.keywords:
            self.must(k.arg in ARGUMENTS, node)
            self.a_constant(k.value)
            value = ast.literal_eval(k.value)
            self.must(isinstance(value, ARGUMENTS[k.arg]) and not isinstance(value, bool), node)

    def a_constant(self, node):
        if isinstance(node, ast.UnaryOp):
            self.must(isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float), node)
        elif isinstance(node, ast.List):
            for one in node.elts:
                self.a_constant(one)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                self.a_string(key)
                self.a_constant(value)
        else:
            self.must(isinstance(node, ast.Constant), node)
            if isinstance(node.value, str):
                self.a_string(node)
            else:
                self.must(node.value is None or type(node.value) in (bool, int, float), node)
