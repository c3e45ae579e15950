package lvm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// backups writes the metadata of the volume groups that changed since their
// last backup to Options.BackupDir, as vgcfgrestore(8) reads it. LVM's own
// backup during each command would cost every caller; this one comes
// afterwards, once for many changes. The caller holds the turn.
func (c *Client) backups(ctx context.Context, state *State) []error {
	if c.opts.BackupDir == "" {
		return nil
	}
	var errs []error
	for _, vg := range state.VolumeGroups {
		if c.backedUp[vg.UUID] == vg.MetadataSequence {
			continue
		}
		if err := c.backup(ctx, vg); err != nil {
			errs = append(errs, fmt.Errorf("metadata backup of %s: %w", vg.Name, err))
			continue
		}
		c.backedUp[vg.UUID] = vg.MetadataSequence
	}
	return errs
}

func (c *Client) backup(ctx context.Context, vg VolumeGroup) error {
	if err := os.MkdirAll(c.opts.BackupDir, 0o700); err != nil {
		return err
	}
	target := filepath.Join(c.opts.BackupDir, vg.Name)
	cmd := Command{Name: "vgcfgbackup", Args: []string{"-f", target + ".new", vg.Name}}
	result, err := c.observe(ctx, c.runner, cmd, 0)
	if err != nil {
		return err
	}
	if result.ExitCode != 0 {
		return &Error{Kind: ErrFailed, Op: cmd.Name, Object: vg.Name, ExitCode: result.ExitCode, Messages: result.Failures()}
	}
	return os.Rename(target+".new", target)
}
