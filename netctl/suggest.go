package netctl

import (
	"fmt"
	"strings"
)

// unknownFlagText is how the parser begins its complaint about a flag.
const unknownFlagText = "flag provided but not defined: -"

// unknownFlag takes the flag's name out of the parser's complaint.
func unknownFlag(err error) (name string, is bool) {
	return strings.CutPrefix(err.Error(), unknownFlagText)
}

// didYouMean names the known word nearest to what was typed, if one is near.
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

// distance is the number of characters to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
