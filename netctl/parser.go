package netctl

import (
	"context"
	"fmt"
	"regexp"
	"slices"
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
		message = fmt.Sprintf("unknown flag %s of %s", dashed(unknown[1]), cmd.FullName()) + flagMeant(cmd, unknown[1])
	}
	if bad := badValue.FindStringSubmatch(message); bad != nil {
		name, cause := dashed(bad[3]), bad[4]
		for _, c := range plainCauses {
			if strings.Contains(cause, c.has) {
				cause = c.plain
			}
		}
		message = fmt.Sprintf("%s %q: %s", name, bad[1], cause)
	}
	return usageError{message: message, help: cmd}
}

// dashed returns a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagMeant returns the hint for an unknown flag: one of a subcommand, combined single-letter flags, or a misspelt one.
func flagMeant(cmd *cli.Command, typed string) string {
	if belongsBelow(cmd, typed) {
		return fmt.Sprintf("; it is a flag of commands below: type %s behind the command", dashed(typed))
	}
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

// belongsBelow reports whether a subcommand, of whatever depth, has the flag.
func belongsBelow(cmd *cli.Command, typed string) bool {
	return slices.ContainsFunc(cmd.Commands, func(sub *cli.Command) bool {
		return belongsBelow(sub, typed) || slices.ContainsFunc(sub.Flags, func(flag cli.Flag) bool { return slices.Contains(flag.Names(), typed) })
	})
}
