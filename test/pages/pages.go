// Package pages extracts commands, manifests and tables from pages of the documentation, so that tests run them as
// they are written there.
package pages

import (
	"fmt"
	"os"
	"strings"
)

// Section is a part of a page, with its blocks of commands, or of another language, one after the other.
type Section struct{ Title, Commands string }

// Commands returns the sections of a page that have blocks beginning with ```sh.
func Commands(page string) (sections []Section, err error) {
	if sections, err = Blocks(page, "sh"); err == nil && len(sections) < 2 {
		err = fmt.Errorf("%s has %d sections with commands", page, len(sections))
	}
	return sections, err
}

// Blocks returns the sections of a page that have blocks of a language.
func Blocks(page, language string) (sections []Section, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	title, within := "", false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```"):
			within = line == "```"+language+"\n"
			if within && (len(sections) == 0 || sections[len(sections)-1].Title != title) {
				sections = append(sections, Section{Title: title})
			}
		case within:
			sections[len(sections)-1].Commands += line
		case strings.HasPrefix(line, "#"):
			title = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return sections, nil
}

// Rows returns the rows, each a list of cells, of the table in a section that has this head.
func Rows(page, section, head string) (rows [][]string, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	title, within := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			title = strings.TrimSpace(strings.TrimLeft(line, "#"))
		case line == head:
			within = title == section
		case !strings.HasPrefix(line, "|"):
			within = false
		case within && !strings.HasPrefix(line, "|-"):
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no table with the head %s in section %s", page, head, section)
	}
	return rows, nil
}
