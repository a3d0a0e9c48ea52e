package netctl

import (
	"fmt"
	"strings"
)

// didYouMean returns a hint with the known word nearest to the typed one, if one is near.
func didYouMean(typed string, known []string) string {
	nearest, least := "", len(strings.TrimLeft(typed, "-"))/2+1
	for _, word := range known {
		if d := distance(typed, word); d < least && d < len(strings.TrimLeft(word, "-")) {
			nearest, least = word, d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", nearest)
}

// distance returns the number of insertions, deletions, replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
