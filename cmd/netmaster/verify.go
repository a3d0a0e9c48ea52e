package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/netmaster/audit"
)

// defaultAuditLog is the file with changes and refusals.
const defaultAuditLog = "/var/log/contiv/audit.log"

// verifyCommand verifies an audit log offline.
func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify-audit", Usage: "tell whether lines of the audit log were changed or taken out", ArgsUsage: "[FILE]",
		Description: "Reads FILE (default: " + defaultAuditLog + ") and what was put aside of it, FILE.10 to FILE.1, the oldest first. Each line has the\n" +
			"hash of the one before. Whoever can write the files can write all lines anew from some line on: compare the hash\n" +
			"of the last one with a copy elsewhere (--audit-syslog).",
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() > 1 {
				return invalid{fmt.Errorf("verify-audit: one file at most, not %q", cmd.Args().Slice())}
			}
			c, err := audit.Verify(cmp.Or(cmd.Args().First(), defaultAuditLog))
			if err != nil {
				return fmt.Errorf("audit log, after %d lines that follow each other: %w", c.Lines, err)
			}
			said := fmt.Sprintf("%d lines follow each other; the hash of the last one is %s", c.Lines, c.Last())
			if c.Cut > 0 {
				said += fmt.Sprintf("; %d more, each the last one of its file, are being written, or were cut by a crash", c.Cut)
			}
			_, err = fmt.Fprintln(cmd.Root().Writer, said)
			return err
		},
	}
}
