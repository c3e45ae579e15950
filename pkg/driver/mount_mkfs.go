package driver

import (
	"slices"
	"strings"
)

// mkfsRule says which options of a mkfs program users may give. Others could
// reach beyond the volume: copy files of the host into it (mke2fs -d, mkfs.btrfs
// --rootdir), put its journal on another device, or overwrite what is there.
type mkfsRule struct {
	// flags take no value, values take one, as the next word or right behind the letter.
	flags, values []string
	// forbidden are words inside of values: sub-options that name files, devices or offsets.
	forbidden []string
}

func mkfsRuleOf(fsType string) (mkfsRule, bool) {
	switch fsType {
	case "ext4":
		return mkfsRule{
			flags:     []string{"-c", "-v", "-q"},
			values:    []string{"-b", "-C", "-E", "-g", "-G", "-i", "-I", "-J", "-L", "-m", "-N", "-O", "-T", "-U"},
			forbidden: []string{"device", "offset", "journal_dev"},
		}, true
	case "xfs":
		return mkfsRule{
			flags:     []string{"-K", "-q"},
			values:    []string{"-b", "-d", "-i", "-l", "-m", "-n", "-s", "-L"},
			forbidden: []string{"name", "file", "logdev", "rtdev"},
		}, true
	case "btrfs":
		return mkfsRule{
			flags:  []string{"-K", "--nodiscard", "-M", "--mixed", "-q", "-v"},
			values: []string{"-d", "--data", "-m", "--metadata", "-n", "--nodesize", "-s", "--sectorsize", "-O", "--features", "-R", "-L", "--label", "-U", "--uuid", "--csum", "--checksum"},
		}, true
	}
	return mkfsRule{}, false
}

// parseMkfsOptions splits the options of a class at white space and holds them
// to the list of those that are safe.
func parseMkfsOptions(fsType, text string) ([]string, error) {
	words := strings.Fields(text)
	rule, ok := mkfsRuleOf(fsType)
	if !ok {
		return nil, filesystemUnknown.errorf(fsType, filesystemNames())
	}
	for i := 0; i < len(words); i++ {
		word := words[i]
		if slices.Contains(rule.flags, word) {
			continue
		}
		value, ok := rule.valueOf(word)
		if !ok {
			return nil, mkfsOptionRefused.errorf(word, fsType, strings.Join(append(rule.flags, rule.values...), " "))
		}
		if value == "" {
			if i++; i == len(words) {
				return nil, mkfsOptionNoValue.errorf(word)
			}
			value = words[i]
		}
		if bad, is := rule.forbids(value); is {
			return nil, mkfsValueRefused.errorf(bad, word, fsType)
		}
	}
	return words, nil
}

// valueOf finds the option that word is, and the value if it is in the same word.
func (r mkfsRule) valueOf(word string) (value string, ok bool) {
	if slices.Contains(r.values, word) {
		return "", true
	}
	for _, option := range r.values {
		rest, found := strings.CutPrefix(word, option)
		switch {
		case !found:
		case strings.HasPrefix(option, "--"):
			if value, ok := strings.CutPrefix(rest, "="); ok && value != "" {
				return value, true
			}
		default:
			return rest, true
		}
	}
	return "", false
}

func (r mkfsRule) forbids(value string) (string, bool) {
	for part := range strings.SplitSeq(value, ",") {
		name, _, _ := strings.Cut(part, "=")
		if slices.Contains(r.forbidden, name) {
			return name, true
		}
	}
	// A word that begins like an option is never a value of ours.
	return value, strings.HasPrefix(value, "-")
}

// mkfsCommand is the command line that formats device. It never has an option
// to force: what a mkfs program recognises, it shall not overwrite.
func mkfsCommand(device, fsType string, options []string) (program string, args []string) {
	switch fsType {
	case "ext4":
		// No blocks are held back for root: the volume is the user's alone.
		args = []string{"-q", "-m", "0"}
	default:
		args = []string{"-q"}
	}
	return "mkfs." + fsType, append(append(args, options...), device)
}
