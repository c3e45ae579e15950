package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/csi-local/csi-local/test/screen"
)

const (
	// tableRows is how many rows of a table are shown.
	tableRows = 4
	// outputWidth is what is left of a line beside its margin.
	outputWidth = screen.Width - 4
)

// leftOut are columns of kubectl's tables that tell nothing here and make rows too long.
func leftOut() []string {
	return []string{"ACCESS MODES", "RECLAIM POLICY", "VOLUMEATTRIBUTESCLASS", "REASON", "READY", "RESTARTS", "ROLES", "MODES", "ALLOWVOLUMEEXPANSION", "NOMINATED NODE", "READINESS GATES"}
}

// shorten makes what a command has printed fit: of kubectl's tables, one after the other
// with an empty line in between, the first rows without what is left out; of everything else
// the beginning of each line.
func shorten(text string) []string {
	var shown []string
	for i, block := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			shown = append(shown, "")
		}
		rows := strings.Split(block, "\n")
		if columns := columnsOf(rows[0]); strings.HasPrefix(rows[0], "NAME ") && len(columns) > 1 {
			rows = shortenTable(rows, columns)
		}
		for _, row := range rows {
			if letters := []rune(row); len(letters) > outputWidth {
				row = string(letters[:outputWidth-1]) + "…"
			}
			shown = append(shown, row)
		}
	}
	return shown
}

// column is where a column of a table begins and ends, in bytes.
type column struct {
	title      string
	begin, end int
}

// columnsOf reads a header; columns are three spaces apart.
func columnsOf(header string) []column {
	var columns []column
	for _, at := range regexp.MustCompile(`\S+( \S+)*`).FindAllStringIndex(header, -1) {
		if len(columns) > 0 {
			columns[len(columns)-1].end = at[0]
		}
		columns = append(columns, column{header[at[0]:at[1]], at[0], len(header) + 1<<10})
	}
	return columns
}

func shortenTable(rows []string, columns []column) []string {
	hidden := 0
	if len(rows) > tableRows+2 { // one more row is no longer than the line that replaces it
		hidden = len(rows) - tableRows - 1
		rows = rows[:tableRows+1]
	}
	columns = slices.DeleteFunc(columns, func(c column) bool { return slices.Contains(leftOut(), c.title) })
	uuid := regexp.MustCompile(`([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	cells := make([][]string, len(rows))
	widths := make([]int, len(columns))
	for i, row := range rows {
		for j, c := range columns {
			cell := strings.TrimSpace(row[min(c.begin, len(row)):min(c.end, len(row))])
			cell = uuid.ReplaceAllString(cell, "$1…")
			cells[i] = append(cells[i], cell)
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	var shown []string
	for _, row := range cells {
		var line strings.Builder
		for j, cell := range row {
			fmt.Fprintf(&line, "%s%s", cell, strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+2))
		}
		shown = append(shown, strings.TrimRight(line.String(), " "))
	}
	if hidden > 0 {
		shown = append(shown, fmt.Sprintf("… and %d more", hidden))
	}
	return shown
}
