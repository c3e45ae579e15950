package poolconfig

import (
	"errors"
	"fmt"
)

// ErrInvalid is matched by every problem with the contents of a pools file.
var ErrInvalid = errors.New("invalid pools file")

// Problem is one thing that is wrong in a pools file.
type Problem struct {
	// Line and Column count from 1; 0 where the problem has no place.
	Line, Column int
	// Field is where in the document it is, for example pools[0].reserve.
	Field   string
	Message string
}

// Error begins with the place, so that editors can jump to it.
func (p *Problem) Error() string {
	text := p.Message
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Line == 0 {
		return text
	}
	return fmt.Sprintf("%d:%d: %s", p.Line, p.Column, text)
}

// Is makes every problem match [ErrInvalid].
func (p *Problem) Is(target error) bool { return target == ErrInvalid }
