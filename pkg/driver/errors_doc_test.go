package driver

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

var update = flag.Bool("update", false, "write docs/errors.md instead of comparing it") //nolint:gochecknoglobals // a flag

const errorsDoc = "../../docs/errors.md"

// documented is a complaint as the source has it.
type documented struct{ name, kind, format, when string }

// complaintsInSource finds every complaint in the source, so that none can be
// left out of the documentation.
func complaintsInSource(t *testing.T) []documented {
	t.Helper()
	var out []documented
	for _, file := range sourceFiles(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			lit, ok := spec.Values[0].(*ast.CompositeLit)
			if !ok {
				return true
			}
			if typ, ok := lit.Type.(*ast.Ident); !ok || typ.Name != "complaint" {
				return true
			}
			d := documented{name: spec.Names[0].Name}
			for _, element := range lit.Elts {
				kv := element.(*ast.KeyValueExpr)
				switch kv.Key.(*ast.Ident).Name {
				case "kind":
					d.kind = kv.Value.(*ast.Ident).Name
				case "format":
					d.format = text(t, kv.Value)
				case "when":
					d.when = text(t, kv.Value)
				}
			}
			out = append(out, d)
			return true
		})
	}
	if len(out) < 10 {
		t.Fatalf("found only %d complaints: the search is broken", len(out))
	}
	return out
}

// text is the value of a string literal, or of several joined with +.
func text(t *testing.T, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return s
	case *ast.BinaryExpr:
		return text(t, e.X) + text(t, e.Y)
	default:
		t.Fatalf("a complaint's text must be a literal, not %T", e)
		return ""
	}
}

// kindCodes maps the names of this package's sentinels to their codes.
func kindCodes(t *testing.T) map[string]codeRow {
	t.Helper()
	values := map[string]error{
		"errInvalid": errInvalid, "errNotFound": errNotFound, "errConflict": errConflict, "errExhausted": errExhausted, "errElsewhere": errElsewhere,
		"errPoolUnusable": errPoolUnusable, "errOutOfRange": errOutOfRange, "errPrecondition": errPrecondition,
		"errBadToken": errBadToken, "errNotReady": errNotReady, "errProtected": errProtected, "errTags": errTags,
		"errBusy": errBusy, "errStopping": errStopping,
	}
	out := map[string]codeRow{}
	for name, value := range values {
		for _, row := range codeTable() {
			if row.kind == value { //nolint:errorlint // the sentinel itself
				out[name] = row
			}
		}
	}
	return out
}

// codesOf spells a row's codes: the one that most calls answer, and the exceptions.
func codesOf(row codeRow) string {
	out := row.code.String()
	if row.create != codes.OK {
		out += ", in " + methodCreate + " " + row.create.String()
	}
	if row.expand != codes.OK {
		out += ", in " + methodExpand + " " + row.expand.String()
	}
	return out
}

func TestComplaints_AreWellFormed(t *testing.T) {
	kinds := kindCodes(t)
	for _, d := range complaintsInSource(t) {
		if _, ok := kinds[d.kind]; !ok {
			t.Errorf("%s: kind %s has no code in this test's list", d.name, d.kind)
		}
		if len(d.format) < 10 || d.when == "" {
			t.Errorf("%s: says too little", d.name)
		}
		if strings.HasSuffix(d.format, ".") || strings.Contains(d.format, "\n") {
			t.Errorf("%s: %q must be one line without a full stop at its end", d.name, d.format)
		}
		if unicode.IsUpper(rune(d.format[0])) && !unicode.IsUpper(rune(d.format[1])) {
			t.Errorf("%s: %q begins like a sentence; it stands behind others", d.name, d.format)
		}
	}
}

var verb = regexp.MustCompile(`%(\[\d+\])?[a-z]`)

func renderErrors(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Errors

What the driver answers, and when. This file is made from the source:
` + "`go test ./pkg/driver -run Errors -update`" + `; a test compares it.

The gRPC code decides what the callers do. csi-provisioner asks another node after
ResourceExhausted; after Aborted, Canceled, DeadlineExceeded and Unavailable it asks here
again, because something may be under way; after every other code it takes it for certain
that nothing was created. csi-resizer and kubelet let the user ask for less after OutOfRange.
kubelet does not ask again for an expansion after FailedPrecondition, so NodeExpandVolume
answers Internal in its place.

## What a user can cause, or mend

… stands for the facts of the case.

| code | message | when |
|---|---|---|
`)
	kinds := kindCodes(t)
	var rows []string
	for _, d := range complaintsInSource(t) {
		message := strings.ReplaceAll(verb.ReplaceAllString(d.format, "…"), "|", `\|`)
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", codesOf(kinds[d.kind]), message, strings.ReplaceAll(d.when, "|", `\|`)))
	}
	slices.Sort(rows)
	b.WriteString(strings.Join(rows, ""))
	b.WriteString(`
## Class parameters and attributes of inline volumes

InvalidArgument, in the form ` + "`parameter \"KEY\" = \"VALUE\": PROBLEM; want WANT`" + `; all problems at once. A size
that no volume can have is OutOfRange, with the numbers.

| key | problem | want |
|---|---|---|
`)
	b.WriteString(strings.Join(parameterRows(t), ""))
	b.WriteString(`
## The pools file

Each begins with LINE:COLUMN and the field; all problems at once. csi-local node does not start with such a
file, and does not take one up while it runs.

| problem |
|---|
`)
	b.WriteString(strings.Join(poolsFileRows(t), ""))
	b.WriteString(`
## What LVM and the devices report

| what happened | code |
|---|---|
`)
	var last string
	for _, row := range codeTable() {
		line := fmt.Sprintf("| %v | %s |\n", row.kind, codesOf(row))
		if line != last { // two packages may say the same
			b.WriteString(line)
		}
		last = line
	}
	b.WriteString("| anything else | Internal |\n")
	return b.String()
}

func TestErrors_DocumentationMatchesTheCode(t *testing.T) {
	want := renderErrors(t)
	if *update {
		if err := os.WriteFile(errorsDoc, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(errorsDoc)
	if err != nil {
		t.Fatalf("%v; go test ./pkg/driver -run Errors -update makes it", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the code says; go test ./pkg/driver -run Errors -update mends it (-want +got)\n%s", errorsDoc, diff)
	}
}
