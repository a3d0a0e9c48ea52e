package netctl

import (
	"fmt"
	"strings"
)

var rotateTool = tool{name: "rotate-ca", usage: "Replace the authorities of the cluster, one step at each call", flags: stepFlags, run: rotateAuthorities,
	more: "Three steps: `add` has new authorities believed beside the old ones, `switch` has the new ones sign, and netmasters and nodes get other certificates, " +
		"`drop` ends the belief in the old ones. A step is refused, with the names of those it waits for, until all netmasters and nodes that are registered know what " +
		"the one before has made: a minute or two. A node or a netmaster that has not heard of `add` when `switch` is done joins anew, by itself, with a token of now in its --join-token-file; tokens made before `switch` are not good after it."}

var rotateKeysTool = tool{name: "rotate-keys", usage: "Replace the key that seals secrets in the store, one step at each call", flags: stepFlags, run: rotateKeys,
	more: "Two steps: `add` makes another key and gives it to all netmasters, `turn` has it seal, and seals anew what is in the store. The second is refused, with the names of those it " +
		"waits for, until all netmasters that are registered have the key: some seconds. The older keys stay in the keyring, for backups."}

// rotateKeys carries out the next step, or prints it.
func rotateKeys(s *session) error {
	dryRun := s.cmd.Bool("dry-run")
	done, err := s.client.RotateKeys(s.ctx, dryRun)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(done)
	}
	switch {
	case dryRun:
		_, err = fmt.Fprintf(s.out, "Step %s would be done: nothing is changed.\n", printable(done.Step))
	case done.Done:
		_, err = fmt.Fprintf(s.out, "Step %s is done: %d secrets are sealed anew.\n", printable(done.Step), done.Resealed)
	default:
		_, err = fmt.Fprintf(s.out, "Step %s is done: run this again for the next one, as soon as all netmasters have the key.\n", printable(done.Step))
	}
	if err == nil && done.Left > 0 {
		_, err = fmt.Fprintf(s.out, "%d texts look sealed, and open with no key of the keyring: they stay as they are.\n", done.Left)
	}
	return err
}

// rotateAuthorities carries out the next step, or prints it.
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
