package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrAnnotation: the annotation's value as a whole cannot be read. No pool of
// the node can be used.
var ErrAnnotation = errors.New("unreadable capacity annotation")

// PoolValueError says why the figure of one pool cannot be used.
type PoolValueError struct {
	Pool    string
	Value   string // as it stands in the JSON, shortened
	Problem string
}

// Error names the pool, the value and what is wrong with it.
func (e *PoolValueError) Error() string {
	return fmt.Sprintf("pool %q: %s: %s", e.Pool, e.Value, e.Problem)
}

// EncodePools returns the annotation's value: a JSON object, pool name to
// allocatable bytes as a decimal string, keys sorted, nothing else. Equal maps
// give equal bytes. Negative figures, unusable names and a result above
// [MaxAnnotationBytes] are errors, so that nothing unreadable is published.
func EncodePools(pools map[string]int64) (string, error) {
	out := make(map[string]string, len(pools))
	for name, bytes := range pools {
		if problem := poolNameProblem(name); problem != "" {
			return "", &PoolValueError{Pool: name, Value: strconv.FormatInt(bytes, 10), Problem: problem}
		}
		if bytes < 0 {
			return "", &PoolValueError{Pool: name, Value: strconv.FormatInt(bytes, 10), Problem: "is negative"}
		}
		out[name] = strconv.FormatInt(bytes, 10)
	}
	value, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAnnotation, err)
	}
	if len(value) > MaxAnnotationBytes {
		return "", fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrAnnotation, len(value), MaxAnnotationBytes)
	}
	return string(value), nil
}

// DecodePools reads what [EncodePools] wrote, and survives whatever else may
// stand there. A document that is not one JSON object of at most
// [MaxAnnotationBytes] is an error that matches [ErrAnnotation]: no pool. In a
// readable document each figure is judged alone: pools holds the good ones, bad
// the others (*PoolValueError by pool name). A name that occurs twice is bad,
// whatever its values, since nobody can tell which one is meant. A pool that is
// in neither map was not published.
func DecodePools(value string) (pools map[string]int64, bad map[string]error, err error) {
	if err := checkDocument(value); err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(strings.NewReader(value))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, fmt.Errorf("%w: not a JSON object: %s", ErrAnnotation, shorten(value))
	}
	pools, bad = map[string]int64{}, map[string]error{}
	for dec.More() {
		if err := decodePool(dec, pools, bad); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrAnnotation, err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("%w: object is not closed: %w", ErrAnnotation, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%w: something follows the object, at byte %d", ErrAnnotation, dec.InputOffset())
	}
	return pools, bad, nil
}

func checkDocument(value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return fmt.Errorf("%w: empty", ErrAnnotation)
	case len(value) > MaxAnnotationBytes:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrAnnotation, len(value), MaxAnnotationBytes)
	case !utf8.ValidString(value):
		return fmt.Errorf("%w: not UTF-8", ErrAnnotation)
	case strings.HasPrefix(value, "\ufeff"):
		return fmt.Errorf("%w: begins with a byte order mark", ErrAnnotation)
	}
	return nil
}

// decodePool reads one member of the object into pools or bad.
func decodePool(dec *json.Decoder, pools map[string]int64, bad map[string]error) error {
	key, err := dec.Token()
	if err != nil {
		return err
	}
	name, ok := key.(string)
	if !ok {
		return fmt.Errorf("member name is %v, not a string", key)
	}
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	_, seen := pools[name]
	_, seenBad := bad[name]
	if seen || seenBad {
		delete(pools, name)
		bad[name] = &PoolValueError{Pool: name, Value: shorten(string(raw)), Problem: "the name occurs more than once"}
		return nil
	}
	bytes, problem := decodeBytes(raw)
	if nameProblem := poolNameProblem(name); nameProblem != "" {
		problem = nameProblem
	}
	if problem != "" {
		bad[name] = &PoolValueError{Pool: name, Value: shorten(string(raw)), Problem: problem}
		return nil
	}
	pools[name] = bytes
	return nil
}

// decodeBytes reads a JSON string of decimal digits. One spelling per number,
// so that comparing two annotations is comparing their text.
func decodeBytes(raw json.RawMessage) (bytes int64, problem string) {
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return 0, `is not a string of decimal digits such as "1073741824"`
	}
	digits := text != ""
	for i := range len(text) {
		digits = digits && text[i] >= '0' && text[i] <= '9'
	}
	switch {
	case strings.HasPrefix(text, "-"):
		return 0, "is negative or no number"
	case !digits:
		return 0, "is not a string of decimal digits"
	case len(text) > 1 && text[0] == '0':
		return 0, "has leading zeros"
	}
	bytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, "is more than a 64-bit number of bytes"
	}
	return bytes, ""
}

// poolNameProblem is laxer than [ValidatePoolName]: the names of pools that
// other writers of the contract chose are not ours to judge.
func poolNameProblem(name string) string {
	switch {
	case name == "":
		return "the pool's name is empty"
	case !utf8.ValidString(name):
		return "the pool's name is not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "the pool's name has control characters"
	}
	return ""
}

// shorten keeps messages readable whatever the value is.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
