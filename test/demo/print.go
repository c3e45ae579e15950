package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/csi-local/csi-local/test/vm"
)

const (
	// width is that of the widest line; terminals have 80 columns or more.
	width = 96
	// patience is how often a line says that something goes on, where lines stay.
	patience = 5 * time.Second
)

// clearLine takes the cursor to the beginning of its line and empties it (ECMA-48, EL).
const clearLine = "\r\x1b[K"

// Colours of a terminal (ECMA-48, SGR).
const (
	plain  = "0"
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// printer writes for human eyes, a line at a time. Its methods may be called from any
// goroutine: a step writes from one, and the progress of it comes from another.
type printer struct {
	// terminal tells that colours are understood, and that a line can be taken back.
	terminal bool

	mu       sync.Mutex // protects out and progress
	out      io.Writer
	progress bool // the cursor is at the end of a line of progress
}

func newPrinter(out io.Writer, terminal bool) *printer { return &printer{out: out, terminal: terminal} }

func (p *printer) paint(color, text string) string {
	if !p.terminal || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[" + plain + "m"
}

func (p *printer) line(format string, args ...any) {
	p.write(fmt.Sprintf(format+"\n", args...), false)
}

// write takes a line of progress back before it writes text.
func (p *printer) write(text string, progress bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress {
		text = clearLine + text
	}
	p.progress = progress
	_, _ = io.WriteString(p.out, text) // nobody to tell
}

func (p *printer) introduction(count int) {
	p.line("%s: the life of real volumes on real LVM\n", p.paint(bold, "csi-local demo"))
	p.line("  what     Two pools are made, one thick and one thin. The driver is started as a user would")
	p.line("           start it. Then come the calls that csi-provisioner and kubelet make: create, stage,")
	p.line("           publish, expand, and so on until all is deleted.")
	p.line("  shown    after each step what changed in LVM (lvs, vgs) and in the mount table, and the time")
	p.line("  length   %d steps, about a minute; the first run also compiles", count)
}

func (p *printer) place(backend vm.Backend) {
	text := "in a throwaway kernel (user-mode Linux); this machine's disks are not touched, and\n" +
		"           whatever starts a process takes several times as long as on a real node"
	if backend == vm.Host {
		text = "on this machine's own kernel, on loop devices that are removed afterwards"
	}
	p.line("  where    %s", text)
}

// during runs something that may take long, and says so while it does.
func (p *printer) during(what string, do func() error) error {
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
			text := p.paint(dim, fmt.Sprintf("    … %s, %d s so far", what, int(time.Since(start).Seconds())))
			if !p.terminal {
				text += "\n"
			}
			p.write(text, p.terminal)
		}
	}
}

func (p *printer) step(number, count int, title string) {
	p.line("\n%s", p.paint(bold, fmt.Sprintf("%2d/%d  %s", number, count, title)))
}

// call prints one call that was made, what came of it and the time it took.
func (p *printer) call(name, result string, took time.Duration) {
	p.timed(fmt.Sprintf("    %-20s %s", name, result), took)
}

// command prints a command as it would be typed.
func (p *printer) command(text string, took time.Duration) { p.timed("    # "+text, took) }

func (p *printer) timed(left string, took time.Duration) {
	p.line("%s%s", left, p.paint(dim, rightOf(left, duration(took))))
}

// rightOf pads text so that it ends at the page's right edge, after left.
func rightOf(left, text string) string {
	space := max(width-utf8.RuneCountInString(left)-utf8.RuneCountInString(text), 2)
	return strings.Repeat(" ", space) + text
}

// note prints a line of explanation.
func (p *printer) note(format string, args ...any) {
	p.line("    %s", p.paint(dim, fmt.Sprintf(format, args...)))
}

// message prints a text as its reader gets it, folded and set off.
func (p *printer) message(text string) {
	for _, line := range fold(text, width-8) {
		p.line("    %s %s", p.paint(yellow, "│"), line)
	}
}

func (p *printer) change(c change) {
	color, sign := map[changeKind]string{added: green, changed: yellow, removed: red}[c.kind], string(c.kind)
	p.line("    %-6s %s", c.source, p.paint(color, sign+" "+c.text))
}

func (p *printer) failure(err error, log string) {
	p.line("\n%s %v", p.paint(red, "FAILED:"), err)
	if log != "" {
		p.line("\nThe last lines of the driver's log:\n%s", log)
	}
}

// summary is the table at the end.
func (p *printer) summary(done []finished, total time.Duration) {
	p.line("\n%s", p.paint(bold, "All steps"))
	for i, f := range done {
		left := fmt.Sprintf("  %2d  %s", i+1, f.title)
		p.line("%s%s", left, rightOf(left, duration(f.took)))
	}
	left := "      in all, with the looks at LVM in between"
	p.line("%s%s", p.paint(bold, left), p.paint(bold, rightOf(left, duration(total))))
}

func (p *printer) success(text string) { p.line("\n%s %s", p.paint(green, "OK"), text) }

func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// fold breaks text at spaces into lines of at most limit characters.
func fold(text string, limit int) []string {
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
