// Package screen prints what a demonstration does, for human eyes: steps, commands with the
// time they took, and progress while something takes long.
package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	// Width is that of the widest line; terminals have 80 columns or more.
	Width = 96
	// patience is how often a line says that something goes on, where lines stay.
	patience = 5 * time.Second
)

// clearLine takes the cursor to the beginning of its line and empties it (ECMA-48, EL).
const clearLine = "\r\x1b[K"

// Color is one of a terminal (ECMA-48, SGR).
type Color string

// The colours, and what else tells text apart.
const (
	Bold   Color = "1"
	Dim    Color = "2"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	plain  Color = "0"
)

// Printer writes a line at a time. Its methods may be called from any goroutine: a step
// writes from one, and the progress of it comes from another.
type Printer struct {
	terminal bool

	mu       sync.Mutex // protects out and progress
	out      io.Writer
	progress bool // the cursor is at the end of a line of progress
}

// New returns a printer. terminal tells that colours are understood, and that a line can be
// taken back.
func New(out io.Writer, terminal bool) *Printer { return &Printer{out: out, terminal: terminal} }

// IsTerminal tells whether there are eyes at the other end of a file.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Terminal is what New was given.
func (p *Printer) Terminal() bool { return p.terminal }

// Paint colours text on a terminal.
func (p *Printer) Paint(color Color, text string) string {
	if !p.terminal || text == "" {
		return text
	}
	return "\x1b[" + string(color) + "m" + text + "\x1b[" + string(plain) + "m"
}

// Line prints a line as it is.
func (p *Printer) Line(format string, args ...any) {
	p.write(fmt.Sprintf(format+"\n", args...), false)
}

// write takes a line of progress back before it writes text.
func (p *Printer) write(text string, progress bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress {
		text = clearLine + text
	}
	p.progress = progress
	_, _ = io.WriteString(p.out, text) // nobody to tell
}

// During runs something that may take long, and says so while it does.
func (p *Printer) During(what string, do func() error) error {
	start, done := time.Now(), make(chan error, 1)
	go func() { done <- do() }()
	interval := patience
	if p.terminal {
		interval = time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if p.terminal {
				p.write("", false)
			}
			return err
		case <-tick.C:
			text := p.Paint(Dim, fmt.Sprintf("    … %s, %d s so far", what, int(time.Since(start).Seconds())))
			if !p.terminal {
				text += "\n"
			}
			p.write(text, p.terminal)
		}
	}
}

// Step begins a step.
func (p *Printer) Step(number, count int, title string) {
	p.Line("\n%s", p.Paint(Bold, fmt.Sprintf("%2d/%d  %s", number, count, title)))
}

// Call prints one call that was made, what came of it and the time it took.
func (p *Printer) Call(name, result string, took time.Duration) {
	p.Timed(fmt.Sprintf("    %-20s %s", name, result), took)
}

// Command prints a command as it would be typed.
func (p *Printer) Command(text string, took time.Duration) { p.Timed("    # "+text, took) }

// Timed prints a line with a time at the right.
func (p *Printer) Timed(left string, took time.Duration) {
	p.Line("%s%s", left, p.Paint(Dim, rightOf(left, Duration(took))))
}

// rightOf pads text so that it ends at the page's right edge, after left.
func rightOf(left, text string) string {
	space := max(Width-utf8.RuneCountInString(left)-utf8.RuneCountInString(text), 2)
	return strings.Repeat(" ", space) + text
}

// Note prints a line of explanation.
func (p *Printer) Note(format string, args ...any) {
	p.Line("    %s", p.Paint(Dim, fmt.Sprintf(format, args...)))
}

// Message prints a text as its reader gets it, folded and set off.
func (p *Printer) Message(text string) {
	for _, line := range Fold(text, Width-8) {
		p.Line("    %s %s", p.Paint(Yellow, "│"), line)
	}
}

// Failure says why it ends, with the end of a log if there is one.
func (p *Printer) Failure(err error, log string) {
	p.Line("\n%s %v", p.Paint(Red, "FAILED:"), err)
	if log != "" {
		p.Line("\nThe last lines of the driver's log:\n%s", log)
	}
}

// Finished is a step that was done, and the time it took.
type Finished struct {
	Title string
	Took  time.Duration
}

// Summary is the table at the end. total is the time of all, which whole describes.
func (p *Printer) Summary(done []Finished, whole string, total time.Duration) {
	p.Line("\n%s", p.Paint(Bold, "All steps"))
	for i, f := range done {
		left := fmt.Sprintf("  %2d  %s", i+1, f.Title)
		p.Line("%s%s", left, rightOf(left, Duration(f.Took)))
	}
	left := "      " + whole
	p.Line("%s%s", p.Paint(Bold, left), p.Paint(Bold, rightOf(left, Duration(total))))
}

// Success is the last word.
func (p *Printer) Success(text string) { p.Line("\n%s %s", p.Paint(Green, "OK"), text) }

// Duration writes a time as people say it.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
}

// Mebibytes writes a number of bytes.
func Mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// Fold breaks text at spaces into lines of at most limit characters.
func Fold(text string, limit int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > limit {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
