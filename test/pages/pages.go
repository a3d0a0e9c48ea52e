// Package pages finds the commands in pages of the documentation, so that tests run them as
// they stand there.
package pages

import (
	"fmt"
	"os"
	"strings"
)

// Section is a part of a page, with its blocks of commands one after the other.
type Section struct{ Title, Commands string }

// Commands are the sections of a page that have blocks that begin with ```sh.
func Commands(page string) (sections []Section, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	title, command := "", false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```"):
			command = line == "```sh\n"
			if command && (len(sections) == 0 || sections[len(sections)-1].Title != title) {
				sections = append(sections, Section{Title: title})
			}
		case command:
			sections[len(sections)-1].Commands += line
		case strings.HasPrefix(line, "#"):
			title = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if len(sections) < 2 {
		return nil, fmt.Errorf("%s has %d sections with commands", page, len(sections))
	}
	return sections, nil
}
