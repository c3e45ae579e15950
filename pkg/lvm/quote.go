package lvm

import (
	"fmt"
	"strings"
)

const (
	// The lvm shell splits a line into at most 64 words and answers a longer
	// line without a report, which would leave its reader waiting.
	maxShellWords = 63
	// maxShellLine bounds one line; the longest command of this package, a full
	// set of tags, is a few KiB.
	maxShellLine = 32 << 10
)

// shellLine renders a command for the lvm shell, newline included. The shell's
// parser knows no escapes: a word is delimited by blanks or, if it begins with
// ' or ", by that character; a word that begins with # starts a comment.
// The line passes through readline, for which control characters are editing
// commands, so nothing but printable ASCII may reach it.
func shellLine(cmd Command) (string, error) {
	if len(cmd.Args)+1 > maxShellWords {
		return "", fmt.Errorf("%w: %s with %d arguments, LVM's shell takes at most %d",
			ErrInvalid, cmd.Name, len(cmd.Args), maxShellWords-1)
	}
	var b strings.Builder
	b.WriteString(cmd.Name)
	for _, arg := range cmd.Args {
		word, err := shellWord(arg)
		if err != nil {
			return "", err
		}
		b.WriteByte(' ')
		b.WriteString(word)
	}
	if b.Len() > maxShellLine {
		return "", fmt.Errorf("%w: %s is %d bytes long, limit %d", ErrInvalid, cmd.Name, b.Len(), maxShellLine)
	}
	b.WriteByte('\n')
	return b.String(), nil
}

func shellWord(arg string) (string, error) {
	for i := range len(arg) {
		if arg[i] < ' ' || arg[i] > '~' {
			return "", fmt.Errorf("%w: %q has a character that LVM's shell cannot take", ErrInvalid, arg)
		}
	}
	plain := arg != "" && !strings.Contains(arg, " ") && !strings.ContainsAny(arg[:1], `'"#`)
	switch {
	case plain:
		return arg, nil
	case !strings.Contains(arg, "'"):
		return "'" + arg + "'", nil
	case !strings.Contains(arg, `"`):
		return `"` + arg + `"`, nil
	}
	return "", fmt.Errorf("%w: %q has both kinds of quotes", ErrInvalid, arg)
}
