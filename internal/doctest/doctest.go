// Package doctest reads the documentation for tests that hold it to the code.
package doctest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Read returns a file as text.
func Read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Rows returns the table under a heading of a Markdown text: the other cells of
// each row, by the name that stands in its first one, in backquotes. Without that
// heading the test ends.
func Rows(t *testing.T, doc, heading string) map[string][]string {
	t.Helper()
	_, section, found := strings.Cut(doc, "\n"+heading+"\n")
	if !found {
		t.Fatalf("no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[strings.Trim(cells[0], "`")] = cells[1:]
	}
	return rows
}

// Shell returns the commands of a Markdown text that are marked as sh, each on one line.
func Shell(doc string) (commands []string) {
	for _, match := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		for line := range strings.Lines(strings.ReplaceAll(match[1], "\\\n", " ")) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// YAML returns the examples of a Markdown text that are marked as YAML.
func YAML(doc string) []string {
	var examples []string
	for _, match := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		examples = append(examples, match[1])
	}
	return examples
}

// Column returns one column of the table under a heading, by the rows' first
// cells, as they are written. Column 1 is the one after these.
func Column(t *testing.T, doc, heading string, column int) map[string]string {
	t.Helper()
	_, section, found := strings.Cut(doc, "\n"+heading+"\n")
	if !found {
		t.Fatalf("no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	_, table, _ := strings.Cut(section, "\n|---")
	_, table, _ = strings.Cut(table, "\n")
	cells := map[string]string{}
	for line := range strings.Lines(table) {
		row := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || column >= len(row) {
			break
		}
		cells[strings.TrimPrefix(row[0], "| ")] = strings.TrimSuffix(row[column], " |")
	}
	return cells
}
