// Package udiff compares two texts line by line and writes the differences in the unified format. The texts are
// documents of a few dozen lines, so a plain table of longest common subsequences is sufficient.
package udiff

import (
	"fmt"
	"strings"
)

// context is the number of unchanged lines around a change.
const context = 3

// line is one line of the edit script: ' ', '-' or '+' and the text.
type line struct {
	mark byte
	text string
}

// Unified returns the differences under the two names; empty if there are none.
func Unified(oldName, newName, old, new string) string {
	if old == new {
		return ""
	}
	script := edits(lines(old), lines(new))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	oldAt, newAt, done := 1, 1, 0 // line numbers at script[done]
	for done < len(script) {
		first := next(script, done)
		if first == len(script) {
			break
		}
		from := max(done, first-context)
		oldAt, newAt = oldAt+from-done, newAt+from-done // skipped lines are unchanged
		to := hunkEnd(script, first)
		oldLines, newLines := count(script[from:to])
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(oldAt, oldLines), span(newAt, newLines))
		for _, l := range script[from:to] {
			fmt.Fprintf(&out, "%c%s\n", l.mark, l.text)
		}
		oldAt, newAt, done = oldAt+oldLines, newAt+newLines, to
	}
	return out.String()
}

// next returns the index of the next change at or after a position.
func next(script []line, at int) int {
	for at < len(script) && script[at].mark == ' ' {
		at++
	}
	return at
}

// hunkEnd returns the end of the hunk that begins with a change: changes with adjacent contexts are one hunk.
func hunkEnd(script []line, change int) int {
	for {
		end := change
		for end < len(script) && script[end].mark != ' ' {
			end++
		}
		if change = next(script, end); change-end > 2*context || change == len(script) {
			return min(end+context, len(script))
		}
	}
}

func count(hunk []line) (old, new int) {
	for _, l := range hunk {
		if l.mark != '+' {
			old++
		}
		if l.mark != '-' {
			new++
		}
	}
	return old, new
}

// span returns a position and length for a hunk's heading.
func span(at, length int) string {
	switch length {
	case 0:
		return fmt.Sprintf("%d,0", at-1)
	case 1:
		return fmt.Sprint(at)
	}
	return fmt.Sprintf("%d,%d", at, length)
}

// edits returns the script from a to b with the fewest removed and added lines.
func edits(a, b []string) []line {
	common := make([][]int, len(a)+1) // length of the longest common subsequence of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var script []line
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			script = append(script, line{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			script = append(script, line{'-', a[i]})
			i++
		default:
			script = append(script, line{'+', b[j]})
			j++
		}
	}
	return script
}

// lines splits a text whose last line may lack a newline.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
