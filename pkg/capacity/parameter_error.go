package capacity

import (
	"fmt"
	"strconv"
)

// ParameterError is one thing that is wrong with class parameters or with the
// volume attributes of an inline volume.
type ParameterError struct {
	Key     string
	Value   string // empty for a key that is missing or unknown
	Problem string
	Want    string // what would be right
}

// Error says which parameter, what it is, what is wrong and what would be right.
func (e *ParameterError) Error() string {
	where := "parameter " + strconv.Quote(e.Key)
	if e.Value != "" {
		where += " = " + strconv.Quote(shorten(e.Value))
	}
	return fmt.Sprintf("%s: %s; want %s", where, e.Problem, e.Want)
}
