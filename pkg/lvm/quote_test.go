package lvm

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// splitLikeLVM is the lvm shell's own splitting of a line into words, written
// down from its documented behaviour and held to the real one by a contract test.
func splitLikeLVM(line string) []string {
	var words []string
	for i := 0; i < len(line); {
		for i < len(line) && isBlank(line[i]) {
			i++
		}
		if i == len(line) || line[i] == '#' {
			break
		}
		end := isBlank
		if c := line[i]; c == '\'' || c == '"' {
			end = func(b byte) bool { return b == c }
			i++
		}
		start := i
		for i < len(line) && !end(line[i]) {
			i++
		}
		words = append(words, line[start:i])
		i++
	}
	return words
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\n' }

func TestShellLine_IsSplitByLVMIntoTheSameWords(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune(`ab Z09'"#\$!&=/.-`)), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		cmd := Command{Name: "lvs", Args: rapid.SliceOfN(word, 0, 8).Draw(t, "args")}
		line, err := shellLine(cmd)
		if err != nil {
			for _, arg := range cmd.Args {
				if strings.Contains(arg, `'`) && strings.Contains(arg, `"`) {
					return
				}
			}
			t.Fatalf("%q: %v", cmd.Args, err)
		}
		got := splitLikeLVM(line)
		if len(got) != len(cmd.Args)+1 {
			t.Fatalf("line %q became %q", line, got)
		}
		for i, arg := range cmd.Args {
			if got[i+1] != arg {
				t.Fatalf("line %q became %q", line, got)
			}
		}
	})
}

func TestShellLine_Refuses(t *testing.T) {
	tests := map[string]Command{
		"a newline, which would be a second command": {Name: "lvs", Args: []string{"a\nlvremove -y vg"}},
		"a carriage return":                          {Name: "lvs", Args: []string{"a\rb"}},
		"a tab, which readline would complete":       {Name: "lvs", Args: []string{"a\tb"}},
		"a NUL":                                      {Name: "lvs", Args: []string{"a\x00b"}},
		"an escape":                                  {Name: "lvs", Args: []string{"\x1b"}},
		"bytes beyond ASCII":                         {Name: "lvs", Args: []string{"pä"}},
		"both kinds of quotes":                       {Name: "lvs", Args: []string{`'"`}},
		"more words than the shell answers":          {Name: "lvs", Args: make([]string, 63)},
		"a very long line":                           {Name: "lvs", Args: []string{strings.Repeat("x", maxShellLine)}},
	}
	for name, cmd := range tests {
		t.Run(name, func(t *testing.T) {
			if line, err := shellLine(cmd); !errors.Is(err, ErrInvalid) {
				t.Errorf("got line %q, error %v", line, err)
			}
		})
	}
}

func TestShellLine_Golden(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"plain words":          {[]string{"-y", "vg/lv"}, "lvs -y vg/lv\n"},
		"blanks":               {[]string{"a b"}, "lvs 'a b'\n"},
		"an empty word":        {[]string{""}, "lvs ''\n"},
		"no comment":           {[]string{"#x"}, "lvs '#x'\n"},
		"quotes in a word":     {[]string{`lv_name="a"`}, "lvs lv_name=\"a\"\n"},
		"quotes at the front":  {[]string{`"a"`}, "lvs '\"a\"'\n"},
		"apostrophe and blank": {[]string{`it's a`}, "lvs \"it's a\"\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := shellLine(Command{Name: "lvs", Args: test.args})
			if err != nil || got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
