package netctl

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v3"
)

// Patterns of the parser's errors about flags.
var (
	unknownFlag = regexp.MustCompile(`^flag provided but not defined: -+(.*)$`)
	badValue    = regexp.MustCompile(`^invalid value "(.*)" for flag (-+)(\S+): (.*)$`)
)

// plainCauses translate the parser's reasons into terms of the command line.
var plainCauses = []struct{ has, plain string }{
	{"strconv.ParseInt: parsing", "not a number"},
	{"parse error", "true or false wanted"},
	{"time:", "a time such as 10s wanted"},
	{"can't duplicate this flag", "given more than once"},
}

// onUsageError handles errors of the flag parser.
func onUsageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	message := err.Error()
	if unknown := unknownFlag.FindStringSubmatch(message); unknown != nil {
		message = fmt.Sprintf("unknown flag --%s of %s", unknown[1], cmd.FullName()) + flagMeant(cmd, unknown[1])
	}
	if bad := badValue.FindStringSubmatch(message); bad != nil {
		name, cause := "--"+bad[3], bad[4]
		if len(bad[3]) == 1 {
			name = "-" + bad[3]
		}
		for _, c := range plainCauses {
			if strings.Contains(cause, c.has) {
				cause = c.plain
			}
		}
		message = fmt.Sprintf("%s %q: %s", name, bad[1], cause)
	}
	return usageError{message: message, help: cmd}
}

// flagMeant returns the hint for an unknown flag: combined single-letter flags, or a misspelt one.
func flagMeant(cmd *cli.Command, typed string) string {
	letters := map[string]bool{}
	var names []string
	for _, flag := range cmd.Flags {
		for _, name := range flag.Names() {
			letters[name] = true
			names = append(names, "--"+name)
		}
	}
	each := strings.Split(typed, "")
	for _, letter := range each {
		if !letters[letter] {
			return didYouMean("--"+typed, names)
		}
	}
	return "; short flags are not bundled, did you mean -" + strings.Join(each, " -") + "?"
}
