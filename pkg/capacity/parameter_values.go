package capacity

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

func (r *parameterReader) pool() string {
	name, ok := r.parameters[ParamPool]
	if !ok {
		r.add(ParamPool, "", "is missing", "the name of a pool")
		return ""
	}
	if err := ValidatePoolName(name); err != nil {
		r.add(ParamPool, name, err.Error(), "the name of a pool")
	}
	return name
}

// shape reads the layout and the numbers that belong to it; a number that
// belongs to another layout contradicts it.
func (r *parameterReader) shape() Shape {
	shape := Shape{Layout: oneOf(r, ParamLayout, ClassLayouts())}
	const two = 2
	switch shape.Layout {
	case LayoutStriped:
		shape.Stripes = r.count(ParamStripes, two, MaxStripes)
		shape.StripeSizeBytes = r.stripeSize()
		r.refuse(ParamMirrors, "layout: raid1")
	case LayoutRAID1:
		shape.Stripes = r.count(ParamMirrors, two, MaxCopies)
		r.refuse(ParamStripes, "layout: striped")
		r.refuse(ParamStripeSize, "layout: striped")
	default:
		r.refuse(ParamMirrors, "layout: raid1")
		r.refuse(ParamStripes, "layout: striped")
		r.refuse(ParamStripeSize, "layout: striped")
	}
	return shape
}

// refuse reports a key that only makes sense with another parameter.
func (r *parameterReader) refuse(key, needs string) {
	if value, ok := r.parameters[key]; ok {
		r.add(key, value, "has no meaning without "+needs, needs+", or no "+key)
	}
}

// count reads a whole number from low to high; low if the key is absent.
func (r *parameterReader) count(key string, low, high int) int {
	value, ok := r.parameters[key]
	if !ok {
		return low
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high || strconv.Itoa(n) != value {
		r.add(key, value, "is not a number of disks", fmt.Sprintf("a whole number from %d to %d", low, high))
		return low
	}
	return n
}

func (r *parameterReader) stripeSize() int64 {
	value, ok := r.parameters[ParamStripeSize]
	if !ok {
		return 0
	}
	bytes, err := ParseBytes(value)
	if err != nil || bytes < MinStripeSizeBytes || bytes > MaxStripeSizeBytes || bytes&(bytes-1) != 0 {
		r.add(ParamStripeSize, value, "is not a stripe size", "a power of two from 4Ki to 1Gi, such as 64Ki")
		return 0
	}
	return bytes
}

func (r *parameterReader) filesystem() Filesystem {
	return oneOf(r, ParamFilesystem, Filesystems())
}

func (r *parameterReader) wipe() WipePolicy {
	return oneOf(r, ParamWipe, WipePolicies())
}

// mkfsOptions splits at white space. There is no quoting: the arguments go to
// mkfs as they are, no shell reads them.
func (r *parameterReader) mkfsOptions() []string {
	value := r.parameters[ParamMkfsOptions]
	const want = "arguments of mkfs, separated by spaces, such as -m 0"
	switch {
	case len(value) > maxMkfsOptionsBytes:
		r.add(ParamMkfsOptions, value, fmt.Sprintf("has more than %d bytes", maxMkfsOptionsBytes), want)
		return nil
	case strings.ContainsFunc(value, func(c rune) bool { return unicode.IsControl(c) || c == unicode.ReplacementChar }):
		r.add(ParamMkfsOptions, value, "has control characters", want)
		return nil
	}
	options := strings.Fields(value)
	if len(options) == 0 {
		return nil
	}
	// A first word that is no option would be taken for the device.
	if !strings.HasPrefix(options[0], "-") {
		r.add(ParamMkfsOptions, value, "does not begin with an option", want)
		return nil
	}
	return options
}

// oneOf reads a key whose value is one of a few words; "" if it is absent or wrong.
func oneOf[T ~string](r *parameterReader, key string, allowed []T) T {
	value, ok := r.parameters[key]
	if !ok || (value == "" && key == ParamFilesystem) {
		return ""
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if string(a) == value {
			return a
		}
		names[i] = string(a)
	}
	want := "one of " + strings.Join(names, ", ")
	if closest := ClosestName(value, names); closest != "" {
		want = closest + " (" + want + ")"
	}
	r.add(key, value, "is not known", want)
	return ""
}
