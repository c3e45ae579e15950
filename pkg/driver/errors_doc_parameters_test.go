package driver

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parameterRows are the problems that class parameters and attributes of inline
// volumes can have, as package capacity's source has them.
func parameterRows(t *testing.T) []string {
	t.Helper()
	files := sourceFiles(t, "../capacity")
	constants := stringConstants(files)
	var rows []string
	row := func(key, problem, want ast.Expr) {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", words(key, constants), words(problem, constants), words(want, constants)))
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if isMethodCall(n, "add") && len(n.Args) == 4 {
					row(n.Args[0], n.Args[2], n.Args[3])
				}
			case *ast.CompositeLit:
				if typ, ok := n.Type.(*ast.Ident); ok && typ.Name == "ParameterError" {
					row(element(n, "Key"), element(n, "Problem"), element(n, "Want"))
				}
			}
			return true
		})
	}
	return sortedRows(t, rows)
}

// poolsFileRows are the problems that a pools file can have.
func poolsFileRows(t *testing.T) []string {
	t.Helper()
	var rows []string
	for _, file := range sourceFiles(t, "../poolconfig") {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isMethodCall(call, "add") && len(call.Args) >= 2 {
				rows = append(rows, fmt.Sprintf("| %s |\n", words(call.Args[1], nil)))
			}
			return true
		})
	}
	return sortedRows(t, rows)
}

func sortedRows(t *testing.T, rows []string) []string {
	t.Helper()
	if len(rows) < 10 {
		t.Fatalf("found only %d problems: the search is broken", len(rows))
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	// What only passes on the words of another function says nothing here.
	return slices.DeleteFunc(rows, func(row string) bool { return strings.Trim(row, "|… \n") == "" })
}

func isMethodCall(call *ast.CallExpr, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name
}

// element is the value of a field in a composite literal, nil if it is not set.
func element(lit *ast.CompositeLit, field string) ast.Expr {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == field {
			return kv.Value
		}
	}
	return nil
}

// words is what an expression says as far as the source tells; … stands for the rest.
func words(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return strings.ReplaceAll(verb.ReplaceAllString(s, "…"), "|", `\|`)
		}
	case *ast.Ident:
		if value, ok := constants[e.Name]; ok {
			return value
		}
	case *ast.BinaryExpr:
		return words(e.X, constants) + words(e.Y, constants)
	case *ast.CallExpr:
		if isMethodCall(e, "Sprintf") && len(e.Args) > 0 {
			return words(e.Args[0], constants)
		}
	}
	return "…"
}

// stringConstants are the package-level constants whose values the source tells.
func stringConstants(files []*ast.File) map[string]string {
	out := map[string]string{}
	for range 2 { // the second time for those that are made of others
		for _, file := range files {
			for _, decl := range file.Decls {
				gen, ok := decl.(*ast.GenDecl)
				if !ok || gen.Tok != token.CONST {
					continue
				}
				for _, spec := range gen.Specs {
					spec := spec.(*ast.ValueSpec)
					if len(spec.Names) != 1 || len(spec.Values) != 1 {
						continue
					}
					if value := words(spec.Values[0], out); !strings.Contains(value, "…") {
						out[spec.Names[0].Name] = value
					}
				}
			}
		}
	}
	return out
}
