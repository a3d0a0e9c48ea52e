package netctl

import (
	"fmt"
	"strings"
)

var rotateTool = tool{name: "rotate-ca", usage: "Replace the authorities of the cluster, one step at each call", flags: stepFlags, run: rotateAuthorities,
	more: "Three steps: `add` has new authorities believed beside the old ones, `switch` has the new ones sign, and netmasters and nodes get other certificates, " +
		"`drop` ends the belief in the old ones. A step is refused, with the names of those it waits for, until all netmasters and nodes that are registered know what " +
		"the one before has made: a minute or two. A node or a netmaster that is away during the last two has to join anew with a token; tokens made before `switch` are not good after it."}

// rotateAuthorities does the next step, or says which it is.
func rotateAuthorities(s *session) error {
	dryRun := s.cmd.Bool("dry-run")
	done, err := s.client.RotateAuthorities(s.ctx, dryRun)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(done)
	}
	is, rest := "is done", "run this again for the next one, as soon as all know this one"
	if dryRun {
		is, rest = "would be done", "nothing is changed"
	} else if done.Done {
		rest = "the authorities are replaced"
	}
	if _, err := fmt.Fprintf(s.out, "Step %s %s: %s.\n", printable(done.Step), is, rest); err != nil {
		return err
	}
	if len(done.Absent) > 0 {
		_, err = fmt.Fprintf(s.out, "Away, and not waited for: %s.\n", printable(strings.Join(done.Absent, ", ")))
	}
	return err
}
