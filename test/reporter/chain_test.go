package reporter

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/test/testbed"
)

// writes are the writes of Nodes and CSINodes in the audit log that reporters asked for.
func (b *bed) writes() []testbed.Request {
	b.t.Helper()
	var writes []testbed.Request
	for _, r := range b.audit() {
		if byReporter(r) {
			writes = append(writes, r)
		}
	}
	return writes
}

func (b *bed) audit() []testbed.Request {
	b.t.Helper()
	requests, err := b.cluster.Audit(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(requests, func(r testbed.Request) bool {
		return !r.Write() || (r.Resource != "nodes" && r.Resource != "csinodes")
	})
}

func byReporter(r testbed.Request) bool { return strings.HasPrefix(r.Agent, agent) }

// verdict is what the history of all objects says of the reporters' writes.
type verdict struct {
	done, refused, others int
	blind, idle           []testbed.Request
}

// judge replays the history of each object: whoever wrote, each version follows
// on the one before. A reporter's write is blind unless the version it named is the
// very one that its write replaced, and idle if it replaced nothing.
func judge(requests []testbed.Request) verdict {
	var v verdict
	history := map[string][]testbed.Request{}
	for _, r := range requests {
		switch {
		case r.Code == 409 && byReporter(r):
			v.refused++
		case r.Code/100 == 2:
			history[r.Resource+"/"+r.Name] = append(history[r.Resource+"/"+r.Name], r)
		}
	}
	for _, writes := range history {
		slices.SortStableFunc(writes, func(a, b testbed.Request) int { return version(a) - version(b) })
		before := ""
		for _, r := range writes {
			switch {
			case !byReporter(r):
				v.others++
			case r.Version == before:
				v.idle = append(v.idle, r)
			case r.Precondition == "" || r.Precondition != before:
				v.blind = append(v.blind, r)
			default:
				v.done++
			}
			before = r.Version
		}
	}
	return v
}

func version(r testbed.Request) int {
	n, err := strconv.Atoi(r.Version)
	if err != nil {
		return -1
	}
	return n
}

// The judge must be able to condemn.
func TestJudge(t *testing.T) {
	write := func(userAgent, precondition, version string, code int) testbed.Request {
		return testbed.Request{Agent: userAgent, Verb: "patch", Resource: "nodes", Name: "n", Precondition: precondition, Version: version, Code: code}
	}
	v := judge([]testbed.Request{
		write("kubelet", "", "5", 201), write(agent, "5", "7", 200), write(agent, "5", "", 409),
		write("kubelet", "7", "8", 200), write(agent, "7", "9", 200), // overwrites what kubelet did
		write(agent, "", "11", 200), write(agent, "11", "11", 200),
	})
	if v.done != 1 || v.refused != 1 || v.others != 2 || len(v.blind) != 2 || len(v.idle) != 1 {
		t.Errorf("verdict %+v", v)
	}
}
