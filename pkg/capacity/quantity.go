package capacity

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of what the quantity parser is given. It computes exactly, so
// "1e999999999" would keep it busy for hours, and quantities of inline volumes
// come from whoever may create a pod.
const (
	maxQuantityBytes   = 64
	maxExponentDigits  = 2
	exponentCharacters = "eE"
)

// FormatBytes writes a number of bytes for people and for programs: as [ShortBytes]
// does, and exactly, as in "1.5 GiB (1610612736 bytes)".
func FormatBytes(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return fmt.Sprintf("%s (%d bytes)", ShortBytes(bytes), bytes)
}

// ShortBytes writes a number of bytes where there is little room: in the largest unit
// of which there is one, cut after one decimal, as in "1.5 GiB".
func ShortBytes(bytes int64) string {
	const step = 1 << 10
	unit, name := int64(1), ""
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if bytes/step < unit {
			break
		}
		unit, name = unit*step, larger
	}
	if name == "" {
		return fmt.Sprintf("%d B", bytes)
	}
	// Cut, not rounded: what is said to fit must fit.
	whole, tenths := bytes/unit, bytes%unit/(unit/step)*10/step
	if tenths == 0 {
		return fmt.Sprintf("%d %s", whole, name)
	}
	return fmt.Sprintf("%d.%d %s", whole, tenths, name)
}

// ParseBytes reads a quantity as Kubernetes writes it ("10Gi", "1500M", "1e9",
// "1073741824") as a number of bytes from 0 to the largest int64. Fractions of a
// byte are rounded up, as Kubernetes does.
func ParseBytes(text string) (int64, error) {
	if len(text) > maxQuantityBytes {
		return 0, fmt.Errorf("quantity %q has more than %d characters", shorten(text), maxQuantityBytes)
	}
	if i := strings.IndexAny(text, exponentCharacters); i >= 0 && len(strings.TrimLeft(text[i+1:], "+-")) > maxExponentDigits {
		return 0, fmt.Errorf("quantity %q has an exponent of more than %d digits", text, maxExponentDigits)
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a quantity such as 10Gi", text)
	}
	if q.Sign() < 0 {
		return 0, fmt.Errorf("quantity %q is negative", text)
	}
	// The parser caps binary quantities at the largest int64, and Value the
	// others: a figure beyond it would silently become another.
	capped := q.Format == resource.BinarySI && q.CmpInt64(math.MaxInt64) == 0
	if capped || q.CmpInt64(math.MaxInt64) > 0 {
		return 0, fmt.Errorf("quantity %q is more than a 64-bit number of bytes", text)
	}
	return q.Value(), nil
}
