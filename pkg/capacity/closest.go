package capacity

import "strings"

// ClosestName returns the one of known that word was probably meant to be, or
// "" when none is near. Case, '-' and '_' do not count as differences, and a
// key written without its prefix ("fstype") is found.
func ClosestName(word string, known []string) string {
	const shortest = 3 // of a part that says anything
	best, bestDistance := "", 1<<30
	for _, candidate := range known {
		w, c := normalize(word), normalize(candidate)
		d := editDistance(w, c)
		if len(w) >= shortest && strings.HasSuffix(c, "/"+w) {
			d = 0
		}
		if d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if bestDistance <= max(1, min(len(word), len(best))/3) {
		return best
	}
	return ""
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
