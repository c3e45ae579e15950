package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"
)

const (
	// modulePath is left out of what is shown.
	modulePath = "github.com/csi-local/csi-local/"
	// failureLines bounds what is shown of one failed test; the log has it all.
	failureLines = 150
)

// event is one line of "go test -json"; go doc test2json describes the fields.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// follower turns test events into progress lines and a result.
// Its methods may be called from one goroutine; read starts a second one for the
// progress lines and guards what both touch.
type follower struct {
	out io.Writer
	log string

	mu       sync.Mutex // guards everything below, and writes to out
	packages map[string]*packageState
	builds   map[string][]string // import path → compiler output
	total    result
}

type packageState struct {
	name    string
	started time.Time
	output  []string // not of a test
	tests   map[string]*testState
	order   []string // tests in the order they started
	running string
}

type testState struct {
	outcome  string // pass, fail, skip; empty while it runs
	output   []string
	children int
}

func newFollower(out io.Writer, log string) *follower {
	return &follower{out: out, log: log, packages: map[string]*packageState{}, builds: map[string][]string{}}
}

// read consumes events until the stream ends. Lines that are no events are passed
// on as they are.
func (f *follower) read(r io.Reader, interval time.Duration) {
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				f.progress()
			}
		}
	})
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			f.line(line)
		}
		if err != nil {
			break
		}
	}
	close(done)
	ticking.Wait()
}

func (f *follower) line(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ev event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &ev) != nil || ev.Action == "" {
		fmt.Fprint(f.out, line)
		return
	}
	switch {
	case strings.HasPrefix(ev.Action, "build-"):
		if ev.Action == "build-output" {
			f.builds[ev.ImportPath] = append(f.builds[ev.ImportPath], ev.Output)
		}
	case ev.Test == "":
		f.packageEvent(ev)
	default:
		f.testEvent(ev)
	}
}

func (f *follower) packageOf(ev event) *packageState {
	p := f.packages[ev.Package]
	if p == nil {
		p = &packageState{name: ev.Package, started: time.Now(), tests: map[string]*testState{}}
		f.packages[ev.Package] = p
	}
	return p
}

func (f *follower) testEvent(ev event) {
	p := f.packageOf(ev)
	t := p.tests[ev.Test]
	if t == nil {
		t = &testState{}
		p.tests[ev.Test] = t
		p.order = append(p.order, ev.Test)
		if i := strings.LastIndex(ev.Test, "/"); i > 0 {
			if parent := p.tests[ev.Test[:i]]; parent != nil {
				parent.children++
			}
		}
	}
	switch ev.Action {
	case "run", "cont":
		p.running = ev.Test
	case "output":
		t.output = append(t.output, ev.Output)
	case "pass":
		t.outcome, t.output = "pass", nil
	case "fail", "skip":
		t.outcome = ev.Action
	}
}

func (f *follower) packageEvent(ev event) {
	p := f.packageOf(ev)
	switch ev.Action {
	case "output":
		p.output = append(p.output, ev.Output)
	case "pass", "fail", "skip":
		f.finish(p, ev)
		delete(f.packages, ev.Package)
	}
}

// finish counts a package's tests and shows how it went.
func (f *follower) finish(p *packageState, ev event) {
	passed, failed, skips := p.count()
	if ev.Action == "fail" && failed == 0 {
		failed = 1 // it did not build, or TestMain failed, or the process died
	}
	f.total.Passed += passed
	f.total.Failed += failed
	f.total.Skips = append(f.total.Skips, skips...)
	f.total.Packages = append(f.total.Packages, packageResult{Package: p.name, Seconds: ev.Elapsed})
	if ev.Action == "skip" {
		return // no test files
	}
	if ev.Action == "fail" {
		f.showFailure(p, ev)
	}
	mark := "ok  "
	if ev.Action == "fail" {
		mark = "FAIL"
	}
	part := result{Passed: passed, Failed: failed, Skips: skips}
	fmt.Fprintf(f.out, "   %s %-32s %8s   %s\n", mark, short(p.name), seconds(ev.Elapsed), part.words())
}

// count looks at each test that has no subtests, and at a parent that failed by
// itself.
func (p *packageState) count() (passed, failed int, skips []skip) {
	for _, name := range p.order {
		t := p.tests[name]
		switch {
		case t.children > 0 && (t.outcome == "pass" || p.childFailed(name)):
		case t.outcome == "pass":
			passed++
		case t.outcome == "skip":
			skips = append(skips, skip{Package: p.name, Test: name, Reason: reason(t.output)})
		default: // failed, or still running when the process ended
			failed++
		}
	}
	return passed, failed, skips
}

func (p *packageState) childFailed(parent string) bool {
	for _, name := range p.order {
		outcome := p.tests[name].outcome
		if strings.HasPrefix(name, parent+"/") && outcome != "pass" && outcome != "skip" {
			return true
		}
	}
	return false
}

func (f *follower) showFailure(p *packageState, ev event) {
	if ev.FailedBuild != "" {
		f.show("does not build: "+short(p.name), f.builds[ev.FailedBuild])
	}
	for _, name := range p.order {
		if t := p.tests[name]; t.outcome != "pass" && t.outcome != "skip" {
			f.show(short(p.name)+" "+name, t.output)
		}
	}
	var rest []string
	for _, line := range p.output {
		if line != "FAIL\n" && line != "PASS\n" && !strings.HasPrefix(line, "FAIL\t") {
			rest = append(rest, line)
		}
	}
	if len(rest) > 0 {
		f.show(short(p.name)+" (outside its tests)", rest)
	}
}

func (f *follower) show(title string, output []string) {
	lines := strings.SplitAfter(strings.Join(output, ""), "\n")
	fmt.Fprintf(f.out, "   ---- %s\n", title)
	if left := len(lines) - failureLines; left > 0 {
		fmt.Fprintf(f.out, "        (%d lines before these: %s)\n", left, f.log)
		lines = lines[left:]
	}
	for _, line := range lines {
		if line != "" {
			fmt.Fprintf(f.out, "        %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

// progress mentions what has been running for a while.
func (f *follower) progress() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name := range f.packages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		p := f.packages[name]
		passed, _, _ := p.count()
		if len(p.order) > 0 {
			fmt.Fprintf(f.out, "   ...  %-32s %8s   %d passed so far, now %s\n",
				short(name), seconds(time.Since(p.started).Seconds()), passed, p.running)
		}
	}
}

// result is what was counted, once the stream has ended. A package that began and
// never ended has failed.
func (f *follower) result(label string) result {
	for _, p := range f.packages {
		f.finish(p, event{Action: "fail", Package: p.name, Elapsed: time.Since(p.started).Seconds()})
	}
	total := f.total
	total.Label = label
	return total
}

// reasonLine is what t.Skip and t.Log print: file, line, text.
var reasonLine = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: (.*\S)`)

// reason finds what a skipped test said last.
func reason(output []string) string {
	for i := len(output) - 1; i >= 0; i-- {
		if m := reasonLine.FindStringSubmatch(output[i]); m != nil {
			return m[1]
		}
	}
	return ""
}

func short(importPath string) string { return strings.TrimPrefix(importPath, modulePath) }
