package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/csi-local/csi-local/pkg/inspect"
)

// Report is what csi-local doctor says, as -o json prints it.
type Report struct {
	// Format is the version of this form: fields may be added without a new one.
	Format int    `json:"format"`
	Driver string `json:"driver"`
	// TakenAt is the API server's clock.
	TakenAt time.Time `json:"takenAt"`
	Healthy bool      `json:"healthy"`
	// Findings in the order of [Examine], none if healthy.
	Findings []Finding `json:"findings"`
	// Checks is how many were made, of so many nodes and PersistentVolumes, with so many
	// requests to the API server.
	Checks   int `json:"checks"`
	Nodes    int `json:"nodes"`
	Volumes  int `json:"volumes"`
	Requests int `json:"requests"`
}

// Format is that of a [Report].
const Format = 1

// New examines the snapshot.
func New(s *inspect.Snapshot) Report {
	found := Examine(s)
	return Report{
		Format: Format, Driver: s.Driver, TakenAt: s.TakenAt.UTC().Truncate(time.Second), Healthy: len(found) == 0, Findings: found,
		Checks: len(Checks()), Nodes: len(s.Nodes), Volumes: len(s.Volumes), Requests: s.Requests,
	}
}

// Ink colours text, if it is true.
type Ink bool

// Red, Yellow, Green and Bold are for terminals (ECMA-48, SGR).
func (i Ink) Red(text string) string { return i.paint("31", text) }

// Yellow is as Red.
func (i Ink) Yellow(text string) string { return i.paint("33", text) }

// Green is as Red.
func (i Ink) Green(text string) string { return i.paint("32", text) }

// Bold is as Red.
func (i Ink) Bold(text string) string { return i.paint("1", text) }

func (i Ink) paint(code, text string) string {
	if !i {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// mostOfCheck is how many findings of one check are written unless all are wanted.
const mostOfCheck = 5

// Write writes the report for people. All writes every finding, however many are alike.
func (r Report) Write(w io.Writer, ink Ink, all bool) error {
	var b strings.Builder
	counts, errors := map[string]int{}, 0
	for _, f := range r.Findings {
		counts[f.Check]++
		if f.Severity == Error {
			errors++
		}
	}
	shown := map[string]int{}
	for _, f := range r.Findings {
		if shown[f.Check]++; all || shown[f.Check] <= mostOfCheck {
			f.write(&b, ink)
		}
		if more := counts[f.Check] - mostOfCheck; !all && shown[f.Check] == mostOfCheck+1 {
			fmt.Fprintf(&b, "%d more of %s; --all shows them\n\n", more, f.Check)
		}
	}
	checks, seen := Plural(r.Checks, "check"), fmt.Sprintf("%s and %s (%s to the API server)", Plural(r.Nodes, "node"), Plural(r.Volumes, "volume"), Plural(r.Requests, "request"))
	if r.Healthy {
		fmt.Fprintf(&b, "%s: %s found nothing wrong with %s\n", ink.Green("Healthy"), checks, seen)
	} else {
		fmt.Fprintf(&b, "%s and %s, found by %s of %s\n", Plural(errors, "error"), Plural(len(r.Findings)-errors, "warning"), checks, seen)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Finding) write(b *strings.Builder, ink Ink) {
	severity := ink.Red("ERROR")
	if f.Severity == Warning {
		severity = ink.Yellow("WARNING")
	}
	where := f.Object.String()
	if f.Pool != "" {
		where += ", pool " + f.Pool
	}
	does := "look"
	if f.Repairs {
		does = "repair"
	}
	fmt.Fprintf(b, "%s  %s  %s\n", severity, ink.Bold(where), f.Check)
	fmt.Fprintf(b, "  %-7s %s\n  %-7s %s\n  %-7s %s\n\n", "wrong", f.Wrong, "why", f.Matters, does, f.Command)
}

// Plural is a number of things in English.
func Plural(count int, word string) string {
	if count == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", count, word)
}
