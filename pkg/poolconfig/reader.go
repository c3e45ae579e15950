package poolconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// value is a node of the document with the name of its place.
type value struct {
	node *yaml.Node
	path string
}

// fields are the members of a mapping, by name. A nil map stands for a value
// that is no mapping and was reported.
type fields map[string]value

// reader collects problems while it walks the document.
type reader struct {
	problems []*Problem
}

func (r *reader) add(v value, format string, args ...any) {
	problem := &Problem{Field: v.path, Message: fmt.Sprintf(format, args...)}
	if v.node != nil {
		problem.Line, problem.Column = v.node.Line, v.node.Column
	}
	r.problems = append(r.problems, problem)
}

// err returns the problems in the order of the file, each once: a general pool
// is built again for every node.
func (r *reader) err() error {
	slices.SortStableFunc(r.problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	seen := map[Problem]bool{}
	var all []error
	for _, p := range r.problems {
		if !seen[*p] {
			seen[*p] = true
			all = append(all, p)
		}
	}
	return errors.Join(all...)
}

// mapping reads the members of v; names that are not known are reported with
// the nearest one that is. A nil known takes any name.
func (r *reader) mapping(v value, known []string) fields {
	if !r.isKind(v, yaml.MappingNode, "a mapping of names to values") {
		return nil
	}
	out := fields{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, member := v.node.Content[i], v.node.Content[i+1]
		at := value{node: key, path: v.path}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "" {
			r.add(at, "a key is %s; want a name", describe(key))
			continue
		}
		at.path = join(v.path, key.Value)
		if known != nil && !slices.Contains(known, key.Value) {
			r.add(at, "unknown field%s", suggestion(key.Value, known))
			continue
		}
		if first, twice := out[key.Value]; twice {
			r.add(at, "occurs twice, first in line %d", first.node.Line)
			continue
		}
		out[key.Value] = value{node: member, path: at.path}
	}
	return out
}

// list reads the elements of v.
func (r *reader) list(v value) []value {
	if !r.isKind(v, yaml.SequenceNode, "a list") {
		return nil
	}
	out := make([]value, len(v.node.Content))
	for i, element := range v.node.Content {
		out[i] = value{node: element, path: fmt.Sprintf("%s[%d]", v.path, i)}
	}
	return out
}

// isKind refuses everything else, anchors and aliases included: they let a
// small file stand for a huge one, and problems would have no one place.
func (r *reader) isKind(v value, kind yaml.Kind, want string) bool {
	switch {
	case v.node.Kind == yaml.AliasNode || v.node.Anchor != "":
		r.add(v, "anchors and aliases are not supported; write the value out")
	case v.node.Kind != kind:
		r.add(v, "is %s; want %s", describe(v.node), want)
	default:
		return true
	}
	return false
}

// scalar returns the text of v if its type is one of tags.
func (r *reader) scalar(v value, want string, tags ...string) (string, bool) {
	if v.node.Kind == yaml.ScalarNode && v.node.Anchor == "" && !slices.Contains(tags, v.node.ShortTag()) {
		r.add(v, "is %s; want %s", describe(v.node), want)
		return "", false
	}
	if !r.isKind(v, yaml.ScalarNode, want) {
		return "", false
	}
	return v.node.Value, true
}

// describe says in the user's words what a node is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return "the number " + shorten(n.Value)
	case "!!bool":
		return "the boolean " + shorten(n.Value)
	case "!!str":
		return fmt.Sprintf("the string %q", shorten(n.Value))
	default:
		return fmt.Sprintf("%q of type %s", shorten(n.Value), n.ShortTag())
	}
}

func suggestion(word string, known []string) string {
	if closest := capacity.ClosestName(word, known); closest != "" {
		return "; did you mean " + closest + "?"
	}
	return "; known are " + strings.Join(known, ", ")
}

func join(path, name string) string {
	name = shorten(name)
	if path == "" {
		return name
	}
	return path + "." + name
}

// shorten keeps messages readable whatever the file holds.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
}
