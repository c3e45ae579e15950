package capacity

import "strings"

// ClosestName returns the one of known that word was probably meant to be, or
// "" when none is near. Case, '-' and '_' do not count as differences; a key
// written without its prefix ("fstype") and the beginning of a key are found.
func ClosestName(word string, known []string) string {
	best, bestDistance := "", 1<<30
	for _, candidate := range known {
		if d, near := distance(normalize(word), normalize(candidate)); near && d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance tells how far word is from candidate and whether that is near
// enough to be a slip.
func distance(word, candidate string) (d int, near bool) {
	const shortestPart = 4 // that says anything
	limit := max(1, min(len(word), len(candidate))/3)
	d = editDistance(word, candidate)
	if len(word) >= shortestPart {
		if strings.HasSuffix(candidate, "/"+word) {
			return 0, true
		}
		if strings.HasPrefix(candidate, word) {
			d = min(d, limit)
		}
	}
	return d, d <= limit
}

func normalize(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// editDistance is the Levenshtein distance in bytes. The words are bounded
// because they come from users.
func editDistance(a, b string) int {
	const most = 64
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
