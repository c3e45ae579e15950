package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"sort"
	"strings"
)

const (
	maxFileLines = 400
	maxFuncLines = 60
)

// call is a rule against calling a function of a package.
type call struct {
	rule string // the name an allowance uses
	pkg  string // import path
	name string // function, or a prefix of it that ends in "*"
	// where the rule holds: "code" leaves test files out, "all" does not
	where string
	// except are folders in which the call is right
	except []string
	why    string
}

// calls are the functions that have no place here.
func calls() []call {
	commands := []string{"cmd", "hack", "test", "bench"}
	return []call{
		{"todo", "context", "TODO", "all", nil, "pass the caller's context on"},
		{"sleep", "time", "Sleep", "all", nil, "wait for the thing itself; tests of clocks use testing/synctest"},
		{"exec", "os/exec", "Command", "all", nil, "use CommandContext, so that a caller can give up"},
		{"exit", "os", "Exit", "code", commands, "return an error; main decides"},
		{"exit", "log", "Fatal*", "code", nil, "return an error; main decides"},
		{"exit", "k8s.io/klog/v2", "Fatal*", "code", nil, "return an error; main decides"},
		{"exit", "k8s.io/klog/v2", "Exit*", "code", nil, "return an error; main decides"},
		{"print", "fmt", "Print*", "code", commands, "log, or write to the writer you were given"},
	}
}

// CheckSource parses one file and returns its findings. name is its path in the
// repository, with forward slashes.
func CheckSource(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	c := &checker{name: name, files: files, file: file, isTest: strings.HasSuffix(name, "_test.go")}
	c.readAllowances()
	c.sizes(source)
	c.calls()
	c.findings = append(c.findings, c.unused()...)
	sort.Strings(c.findings)
	return c.findings, nil
}

type checker struct {
	name   string
	files  *token.FileSet
	file   *ast.File
	isTest bool
	// fakeClock: time.Sleep in the file is on a clock that nobody waits for.
	fakeClock bool
	allowed   map[int]*allowance // by the line that they stand on
	findings  []string
}

// allowance is a comment "//allow:rule reason".
type allowance struct {
	rule string
	used bool
}

func (c *checker) readAllowances() {
	c.allowed = map[int]*allowance{}
	for _, group := range c.file.Comments {
		for _, comment := range group.List {
			text, ok := strings.CutPrefix(comment.Text, "//allow:")
			if !ok {
				continue
			}
			rule, reason, _ := strings.Cut(text, " ")
			line := c.files.Position(comment.Pos()).Line
			if strings.TrimSpace(reason) == "" {
				c.findings = append(c.findings, fmt.Sprintf("%s:%d: allow:%s needs a reason", c.name, line, rule))
			}
			c.allowed[line] = &allowance{rule: rule}
		}
	}
}

// find adds a finding unless an allowance on its line or the line above covers it.
func (c *checker) find(pos token.Pos, rule, format string, args ...any) {
	line := c.files.Position(pos).Line
	for _, l := range []int{line, line - 1} {
		if a := c.allowed[l]; a != nil && a.rule == rule {
			a.used = true
			return
		}
	}
	c.findings = append(c.findings, fmt.Sprintf("%s:%d: %s (rule %s)", c.name, line, fmt.Sprintf(format, args...), rule))
}

func (c *checker) unused() []string {
	var lines []string
	for line, a := range c.allowed {
		if !a.used {
			lines = append(lines, fmt.Sprintf("%s:%d: allow:%s allows nothing", c.name, line, a.rule))
		}
	}
	return lines
}

func (c *checker) sizes(source []byte) {
	if lines := strings.Count(string(source), "\n"); lines > maxFileLines {
		c.find(c.file.Package, "file", "%d lines; at most %d: a file has one subject", lines, maxFileLines)
	}
	for _, decl := range c.file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := c.files.Position(fn.End()).Line - c.files.Position(fn.Pos()).Line + 1
		// A test's table is data and may be as long as there are cases.
		if !c.isTest && lines > maxFuncLines {
			c.find(fn.Pos(), "func", "%s has %d lines; at most %d", fn.Name.Name, lines, maxFuncLines)
		}
		if fn.Recv == nil && fn.Name.Name == "init" {
			c.find(fn.Pos(), "init", "importing a package must have no effect")
		}
	}
}

func (c *checker) calls() {
	imported := c.importNames()
	for _, importPath := range imported {
		c.fakeClock = c.fakeClock || importPath == "testing/synctest"
	}
	ast.Inspect(c.file, func(n ast.Node) bool {
		called, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := called.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if c.isTest && selector.Sel.Name == "SkipNow" || selector.Sel.Name == "Skip" && len(called.Args) == 0 {
			c.find(called.Pos(), "skip", "a skipped test says why")
		}
		if ident, ok := selector.X.(*ast.Ident); ok {
			c.callOf(called.Pos(), imported[ident.Name], selector.Sel.Name)
		}
		return true
	})
}

func (c *checker) callOf(pos token.Pos, pkg, name string) {
	for _, rule := range calls() {
		prefix, isPrefix := strings.CutSuffix(rule.name, "*")
		named := name == rule.name || isPrefix && strings.HasPrefix(name, prefix)
		if pkg != rule.pkg || !named || rule.where == "code" && c.isTest || c.in(rule.except) {
			continue
		}
		if rule.rule == "sleep" && c.fakeClock {
			continue
		}
		c.find(pos, rule.rule, "%s.%s: %s", baseName(pkg), name, rule.why)
	}
}

func (c *checker) in(folders []string) bool {
	for _, folder := range folders {
		if strings.HasPrefix(c.name, folder+"/") {
			return true
		}
	}
	return false
}

// importNames maps the names a file uses for packages to their import paths.
func (c *checker) importNames() map[string]string {
	names := map[string]string{}
	for _, spec := range c.file.Imports {
		importPath := strings.Trim(spec.Path.Value, `"`)
		name := baseName(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = importPath
	}
	return names
}

// baseName is what a package is called where it is imported: k8s.io/klog/v2 is klog.
func baseName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(importPath))
	}
	return base
}
