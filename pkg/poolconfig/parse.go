package poolconfig

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Parse reads a pools file. Every problem is in the error, joined in the order
// of the file, each a *Problem that matches [ErrInvalid].
func Parse(data []byte) (Config, error) {
	if len(data) > MaxFileBytes {
		return Config{}, &Problem{Message: fmt.Sprintf("the file has more than %d bytes", MaxFileBytes)}
	}
	root, err := document(data)
	if err != nil {
		return Config{}, err
	}
	var r reader
	config := r.file(value{node: root})
	if err := r.err(); err != nil {
		return Config{}, err
	}
	config.digest = sha256.Sum256(data)
	return config, nil
}

// document returns the root of the one YAML document in data.
func document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF) || (err == nil && len(first.Content) == 0):
		return nil, &Problem{Message: "the file is empty; want a list of pools"}
	case err != nil:
		return nil, syntaxProblem(err)
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
		return first.Content[0], nil
	case err != nil:
		return nil, syntaxProblem(err)
	default:
		return nil, &Problem{Line: second.Line, Column: second.Column, Message: "a second document begins here; want one"}
	}
}

// syntaxProblem takes the line out of the parser's message, which is all it tells.
func syntaxProblem(err error) *Problem {
	match := regexp.MustCompile(`^yaml: (?:line (\d+): )?((?s).*)$`).FindStringSubmatch(err.Error())
	if match == nil {
		return &Problem{Message: err.Error()}
	}
	problem := &Problem{Message: "not YAML: " + match[2]}
	if line, err := strconv.Atoi(match[1]); err == nil {
		problem.Line, problem.Column = line, 1
	}
	return problem
}

// entry is one element of a list of pools.
type entry struct {
	at     value
	name   string
	fields fields
}

func (r *reader) file(root value) Config {
	top := r.mapping(root, []string{fieldPools, fieldNodes})
	if top == nil {
		return Config{}
	}
	if _, ok := top[fieldPools]; !ok {
		r.add(root, "the field pools is missing; want a list of pools")
	}
	general := r.entries(top)
	for _, e := range general {
		if v, ok := e.fields[fieldAbsent]; ok {
			r.add(v, "belongs in the entry of a node; to offer the pool on no node, leave it out")
		}
	}
	config := Config{pools: r.build(general, ""), nodes: map[string][]Pool{}}
	nodes, ok := top[fieldNodes]
	if !ok {
		return config
	}
	named := r.mapping(nodes, nil)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if problem := nodeNameProblem(name); problem != "" {
			r.add(named[name], "%s", problem)
		}
		own := r.entries(r.mapping(named[name], []string{fieldPools}))
		config.nodes[name] = r.build(r.merge(general, own), " on node "+name)
	}
	return config
}

// entries reads the list of pools in f; names must be there and differ.
func (r *reader) entries(f fields) []entry {
	pools, ok := f[fieldPools]
	if !ok {
		return nil
	}
	var out []entry
	for _, element := range r.list(pools) {
		e := entry{at: element, fields: r.mapping(element, NodePoolFields())}
		if e.fields == nil {
			continue
		}
		if e.name, ok = r.name(e); !ok {
			continue
		}
		if i := slices.IndexFunc(out, func(o entry) bool { return o.name == e.name }); i >= 0 {
			r.add(e.fields[fieldName], "pool %q was defined before, in line %d", e.name, out[i].at.node.Line)
			continue
		}
		out = append(out, e)
	}
	return out
}

func (r *reader) name(e entry) (string, bool) {
	v, ok := e.fields[fieldName]
	if !ok {
		r.add(e.at, "the field name is missing")
		return "", false
	}
	name, ok := r.scalar(v, "a name in quotes or without, such as pool-ssd", "!!str")
	if !ok {
		return "", false
	}
	if err := capacity.ValidatePoolName(name); err != nil {
		r.add(v, "%v", err)
		return "", false
	}
	return name, true
}

// merge lays a node's own entries over the general ones.
func (r *reader) merge(general, own []entry) []entry {
	var out []entry
	for _, g := range general {
		i := slices.IndexFunc(own, func(o entry) bool { return o.name == g.name })
		if i < 0 {
			out = append(out, g)
			continue
		}
		if merged, there := r.mergeOne(g, own[i]); there {
			out = append(out, merged)
		}
	}
	for _, o := range own {
		if slices.ContainsFunc(general, func(g entry) bool { return g.name == o.name }) {
			continue
		}
		if v, ok := o.fields[fieldAbsent]; ok {
			r.add(v, "pool %q is not in the general list, so it is absent anyway", o.name)
			continue
		}
		out = append(out, o)
	}
	return out
}

// mergeOne returns the pool as the node has it, and whether it has it.
func (r *reader) mergeOne(general, own entry) (entry, bool) {
	if v, ok := own.fields[fieldAbsent]; ok {
		text, ok := r.scalar(v, "true", "!!bool")
		switch {
		case !ok:
		case text != "true":
			r.add(v, "is %s; want true, or leave it out", text)
		case len(own.fields) > 2: // name and absent
			r.add(v, "the pool is absent from this node; the other fields have no meaning")
		}
		return entry{}, false
	}
	merged := entry{at: own.at, name: own.name, fields: maps.Clone(general.fields)}
	if _, ok := own.fields[fieldVolumeGroup]; ok {
		// The pin belongs to the volume group that was named beside it.
		delete(merged.fields, fieldVolumeGroupUUID)
	}
	maps.Copy(merged.fields, own.fields)
	if v, ok := own.fields[fieldType]; ok && v.node.Value != general.fields[fieldType].text() {
		r.add(v, "pool %q is %s in the general list; want the same type on each node, or another name",
			own.name, general.fields[fieldType].text())
	}
	return merged, true
}

func (v value) text() string {
	if v.node == nil {
		return ""
	}
	return v.node.Value
}

func nodeNameProblem(name string) string {
	const most = 253 // Kubernetes object names
	valid := name != "" && len(name) <= most
	for i := range len(name) {
		c := name[i]
		valid = valid && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || ((c == '-' || c == '.') && i > 0 && i < len(name)-1))
	}
	if valid {
		return ""
	}
	return fmt.Sprintf("%q is no node name; want lower-case letters, digits, '-' and '.', as kubectl get nodes prints it", shorten(name))
}
