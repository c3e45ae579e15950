package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/doctor"
)

// Style says how tables look.
type Style struct {
	// Width is the terminal's number of columns, 0 if it is not known. Names of nodes
	// are shortened so that rows fit.
	Width int
	Ink   doctor.Ink
	// All writes all rows, however many.
	All bool
}

const (
	barCells = 20
	// mostRows of a table are written unless all are wanted.
	mostRows = 20
	// leastName is what is left of a node's name, however narrow the terminal is.
	leastName = 5
)

// line is a row of a pool's table, before it is laid out.
type line struct {
	row                      NodePool
	node, bytes, slots, aged string
}

// Write writes the tables.
func (r Report) Write(w io.Writer, style Style) error {
	var b strings.Builder
	if len(r.Pools) == 0 {
		b.WriteString("No node publishes a pool of " + r.Driver + "\n\n")
	}
	tables, rest := make([][]line, len(r.Pools)), make([]string, len(r.Pools))
	for i, p := range r.Pools {
		tables[i], rest[i] = r.lines(p, style)
	}
	widths := layOut(tables, style.Width)
	for i, p := range r.Pools {
		b.WriteString(style.Ink.Bold(p.title()) + "\n")
		widths.header(&b)
		for _, l := range tables[i] {
			widths.write(&b, l, style.Ink)
		}
		b.WriteString(rest[i] + "\n")
	}
	r.writeClaims(&b, style)
	if r.Findings > 0 {
		fmt.Fprintf(&b, "Something is wrong: csi-local doctor has %s\n", doctor.Plural(r.Findings, "finding"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Pool) title() string {
	name, kind := p.Name, string(p.Type)
	if name == "" {
		name = "unknown"
	}
	if kind == "" {
		kind = "type not known"
	}
	nodes := 0
	for _, n := range p.Nodes {
		if n.State != Lost {
			nodes++
		}
	}
	return fmt.Sprintf("Pool %s (%s): %s, %s, %s of %s used, %s available", name, kind, doctor.Plural(nodes, "node"), doctor.Plural(p.Volumes, "volume"),
		capacity.ShortBytes(p.UsedBytes), capacity.ShortBytes(p.AllocatableBytes), capacity.ShortBytes(p.AvailableBytes))
}

// fill is the used part, more than 1 if more is used than there is.
func (s Sums) fill() float64 {
	switch {
	case s.UsedBytes == 0:
		return 0
	case s.AllocatableBytes == 0:
		return 1
	default:
		return float64(s.UsedBytes) / float64(s.AllocatableBytes)
	}
}

// rank puts what needs eyes first.
func (s State) rank() int { return slices.Index([]State{Broken, Lost, Stale, Fresh}, s) }

// lines chooses the rows that are written, and says what the others are.
func (r Report) lines(p Pool, style Style) (lines []line, rest string) {
	nodes := slices.Clone(p.Nodes)
	if !style.All && len(nodes) > mostRows {
		slices.SortStableFunc(nodes, func(a, b NodePool) int {
			return cmp.Or(cmp.Compare(a.State.rank(), b.State.rank()), cmp.Compare(b.fill(), a.fill()))
		})
		rest = others(nodes[mostRows:])
		nodes = nodes[:mostRows]
	}
	for _, n := range nodes {
		l := line{row: n, node: n.Node, aged: "-", slots: fmt.Sprintf("%d/-", n.NodeVolumes)}
		l.bytes = capacity.ShortBytes(n.UsedBytes) + " of " + capacity.ShortBytes(n.AllocatableBytes)
		if n.NodeSlots >= 0 {
			l.slots = fmt.Sprintf("%d/%d", n.NodeVolumes, n.NodeSlots)
		}
		if n.ChangedAt != nil {
			l.aged = age(r.TakenAt, *n.ChangedAt)
		}
		lines = append(lines, l)
	}
	return lines, rest
}

// others sums up the rows that are left out.
func others(nodes []NodePool) string {
	counts, least, most := map[State]int{}, nodes[0].fill(), nodes[0].fill()
	for _, n := range nodes {
		counts[n.State]++
		least, most = min(least, n.fill()), max(most, n.fill())
	}
	var parts []string
	for _, state := range []State{Broken, Lost, Stale, Fresh} {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return fmt.Sprintf("%d more nodes: %s, %.0f %% to %.0f %% used; --all shows them\n", len(nodes), strings.Join(parts, ", "), 100*least, 100*most)
}

// age is the time since then; a node whose clock is ahead has no negative one.
func age(now, then time.Time) string { return duration.HumanDuration(max(now.Sub(then), 0)) }

// widths of the columns. domain is what all names of nodes end with, and is left out;
// "" if there is room for it.
type widths struct {
	node, bytes, slots, aged int
	domain                   string
}

func layOut(tables [][]line, terminal int) widths {
	w := widths{node: len("NODE"), bytes: len("BYTES"), slots: len("VOLUMES"), aged: len("AGE")}
	var names []string
	for _, table := range tables {
		for _, l := range table {
			names = append(names, l.node)
			w.bytes, w.slots, w.aged = max(w.bytes, len(l.bytes)), max(w.slots, len(l.slots)), max(w.aged, len(l.aged))
		}
	}
	w.node = max(w.node, longest(names, ""))
	const gaps, state = 5 * 2, len("problem")
	room := terminal - barCells - w.bytes - w.slots - w.aged - state - gaps
	if terminal > 0 && w.node > room {
		w.domain = commonDomain(names)
		w.node = max(min(longest(names, w.domain), room), leastName)
	}
	return w
}

func longest(names []string, domain string) int {
	most := 0
	for _, name := range names {
		most = max(most, utf8.RuneCountInString(withoutDomain(name, domain)))
	}
	return most
}

// commonDomain is what all names have from their first dot on, "" if they differ.
func commonDomain(names []string) string {
	for i, name := range names {
		if _, domain, _ := strings.Cut(name, "."); i > 0 && !strings.HasSuffix(names[0], "."+domain) || domain == "" {
			return ""
		}
	}
	if len(names) == 0 {
		return ""
	}
	_, domain, _ := strings.Cut(names[0], ".")
	return "." + domain
}

func withoutDomain(name, domain string) string {
	if domain == "" {
		return name
	}
	return strings.TrimSuffix(name, domain) + "…"
}

func (w widths) header(b *strings.Builder) {
	fmt.Fprintf(b, "%-*s  %-*s  %*s  %*s  %*s  %s\n", w.node, "NODE", barCells, "USED", w.bytes, "BYTES", w.slots, "VOLUMES", w.aged, "AGE", "STATE")
}

func (w widths) write(b *strings.Builder, l line, ink doctor.Ink) {
	fmt.Fprintf(b, "%-*s  %s  %*s  %*s  %*s  %s\n", w.node, shorten(withoutDomain(l.node, w.domain), w.node), bar(l.row.fill(), ink), w.bytes, l.bytes, w.slots, l.slots, w.aged, l.aged, paint(l.row.State, ink))
	if l.row.Problem != "" {
		b.WriteString("  " + l.row.Problem + "\n")
	}
}

// shorten leaves out the middle: names of nodes begin and end alike.
func shorten(name string, most int) string {
	runes := []rune(name)
	if len(runes) <= most {
		return name
	}
	tail := (most - 1) / 2
	return string(runes[:most-1-tail]) + "…" + string(runes[len(runes)-tail:])
}

func bar(fill float64, ink doctor.Ink) string {
	cells := int(min(fill, 1) * barCells)
	if fill > 0 {
		cells = max(cells, 1) // what is used shows
	}
	full, colour := strings.Repeat("█", cells), ink.Green
	switch {
	case fill >= 0.9:
		colour = ink.Red
	case fill >= 0.75:
		colour = ink.Yellow
	}
	if cells > 0 {
		full = colour(full)
	}
	return full + strings.Repeat("░", barCells-cells)
}

func paint(state State, ink doctor.Ink) string {
	switch state {
	case Fresh:
		return ink.Green(string(state))
	case Stale:
		return ink.Yellow(string(state))
	default:
		return ink.Red(string(state))
	}
}

func (r Report) writeClaims(b *strings.Builder, style Style) {
	if len(r.PendingClaims) == 0 {
		return
	}
	b.WriteString(style.Ink.Bold(fmt.Sprintf("Pending claims: %d", len(r.PendingClaims))) + "\n")
	shown := r.PendingClaims
	if !style.All {
		shown = shown[:min(len(shown), mostRows)]
	}
	for _, c := range shown {
		pool := c.Pool
		if pool == "" {
			pool = "?"
		}
		fmt.Fprintf(b, "%s/%s  %s of pool %s, for %s\n  %s\n", c.Namespace, c.Name, capacity.ShortBytes(c.RequestedBytes), pool, age(r.TakenAt, c.CreatedAt), c.Reason)
	}
	if more := len(r.PendingClaims) - len(shown); more > 0 {
		fmt.Fprintf(b, "%d more; --all shows them\n", more)
	}
	b.WriteString("\n")
}
