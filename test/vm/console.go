package vm

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	tailLines    = 25
	maxLineBytes = 4096
)

// console keeps the last lines that the kernel printed, and those that tell why it died.
// Its methods may be called from any goroutine.
type console struct {
	mu      sync.Mutex
	copyTo  io.Writer // nil when nobody wants it
	reboot  func()    // called when the kernel is about to start again
	partial []byte
	lines   []string
	panic   string // first line of a panic
	oom     string // first line of the out-of-memory killer
}

// newConsole calls reboot from within Write, so that must not wait. Without it,
// user-mode Linux would start itself again, and then the command, for ever.
func newConsole(copyTo io.Writer, reboot func()) *console {
	return &console{copyTo: copyTo, reboot: reboot}
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copyTo != nil {
		// A failing reader of the console must not stop the kernel.
		_, _ = c.copyTo.Write(p)
	}
	c.partial = append(c.partial, p...)
	for {
		end, after := bytes.IndexByte(c.partial, '\n'), 1
		if end < 0 && len(c.partial) <= maxLineBytes {
			return len(p), nil
		}
		if end < 0 || end > maxLineBytes {
			end, after = maxLineBytes, 0
		}
		c.take(strings.TrimRight(string(c.partial[:end]), "\r"))
		c.partial = c.partial[end+after:]
	}
}

func (c *console) take(line string) {
	if isNoise(line) {
		return
	}
	if c.panic == "" && strings.Contains(line, "Kernel panic") {
		c.panic = line
	}
	if c.oom == "" && strings.Contains(line, "Out of memory: Killed process") {
		c.oom = line
	}
	if rebootLine.MatchString(line) && c.reboot != nil {
		c.reboot()
	}
	c.lines = append(c.lines, line)
	if len(c.lines) > tailLines {
		c.lines = c.lines[1:]
	}
}

// isNoise knows what every boot prints, good or bad, and what a stack trace is padded
// with: entries that are only left over on the stack.
func isNoise(line string) bool {
	return strings.TrimSpace(line) == "" || bootNoise.MatchString(line) || staleFrame.MatchString(line)
}

var (
	bootNoise = regexp.MustCompile(`^(epollctl add err fd|Failed to initialize ubd device 0|mmapper_init|` +
		`SELinux: |This architecture does not have kernel memory|Core dump limits|\s(soft|hard) - |` +
		`Checking .*(OK|none found)$|Adding \d+ bytes to physical memory)`)
	rebootLine = regexp.MustCompile(`^(reboot: Restarting system|sysrq: Resetting)`)
	staleFrame = regexp.MustCompile(`^ *\[<[0-9a-f]+>\] \? `)
)

func (c *console) tail() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := append([]string(nil), c.lines...)
	if len(c.partial) > 0 {
		lines = append(lines, string(c.partial))
	}
	return lines
}

// shows says whether one of the last lines matches the expression.
func (c *console) shows(expression string) bool {
	return regexp.MustCompile(expression).MatchString(strings.Join(c.tail(), "\n"))
}

func (c *console) outOfMemory() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.oom
}

// deathReason is for a kernel that ended without the command's status; ended is what
// waiting for its process returned.
func (c *console) deathReason(commandStarted bool, ended error) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	when := "before the command was started"
	if commandStarted {
		when = "while the command ran"
	}
	switch {
	case c.oom != "" && c.panic != "":
		return fmt.Sprintf("ran out of memory and panicked %s (%s)", when, c.panic)
	case c.panic != "":
		return fmt.Sprintf("panicked %s (%s)", when, c.panic)
	case ended != nil:
		return fmt.Sprintf("died %s (%v)", when, ended)
	default:
		return "stopped " + when + " without telling the command's exit status"
	}
}

// glitchWatch looks for the Go runtime's message about the first fault that GlitchError
// tells of. Only one goroutine writes to it.
type glitchWatch struct {
	recent []byte
	line   string
}

var glitchLine = regexp.MustCompile(`epollwait on fd \d+ failed with 38`)

func (g *glitchWatch) Write(p []byte) (int, error) {
	if g.line != "" {
		return len(p), nil
	}
	g.recent = append(g.recent, p...)
	g.line = string(glitchLine.Find(g.recent))
	// The message may come in pieces; it is far shorter than what is kept.
	if keep := 256; len(g.recent) > keep {
		g.recent = append(g.recent[:0], g.recent[len(g.recent)-keep:]...)
	}
	return len(p), nil
}

// glitchSeen returns the line that tells of a known fault, or "". The Go runtime's message
// is on the console when init itself was hit.
func glitchSeen(c *console, watches []*glitchWatch) string {
	for _, watch := range watches {
		if watch.line != "" {
			return watch.line
		}
	}
	if line := glitchLine.FindString(strings.Join(c.tail(), "\n")); line != "" {
		return line
	}
	return c.threadFault()
}

// threadFault returns the line of a panic in a thread of md's, which device mapper calls
// mdX_..., the second fault that GlitchError tells of.
func (c *console) threadFault() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(c.panic, "Segfault with no mm") && slices.ContainsFunc(c.lines, mdThread.MatchString) {
		return c.panic
	}
	return ""
}

var mdThread = regexp.MustCompile(`Comm: mdX_|\bmd_thread\+0x`)
