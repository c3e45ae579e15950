package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What a power cut leaves between LVM's record of a thin volume and the thin
// pool's: the record says what the pool has still to be told, and activating the
// volume does not tell it.
func TestStage_ThinVolumeThatItsPoolWasNotToldOf(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", writer), "pool=pool-thin")
	file := filepath.Join(t.TempDir(), "vgB")
	backup := func() string {
		b.real.Admin(t, "vgcfgbackup", "-f", file, "vgB")
		text, err := os.ReadFile(file)
		must(t, err)
		return string(text)
	}
	withVolume := backup()
	b.real.Admin(t, "lvremove", "-f", v.Ref.String())
	now, err := strconv.Atoi(transaction(t, backup(), "thin-pool"))
	must(t, err)
	b.real.Admin(t, "vgchange", "-an", "vgB")
	record := setTransaction(t, withVolume, "thin-pool", now+1, "message1 {\ncreate = \"vol1\"\n}\n")
	record = setTransaction(t, record, "thin", now, "")
	must(t, os.WriteFile(file, []byte(record), 0o600))
	b.real.Admin(t, "vgcfgrestore", "--force", "-f", file, "vgB")
	b.restart(t)

	must(t, v.Stage(t.Context()), writeFile(filepath.Join(v.Staging, "data"), "precious"), v.Unstage(t.Context()))
	b.reboot(t)
	must(t, v.Stage(t.Context()))
	wantFile(t, filepath.Join(v.Staging, "data"), "precious")
	must(t, errors.Join(v.Unstage(t.Context()), v.Remove(t.Context())))
	if left := strings.Fields(b.real.Admin(t, "lvs", "--noheadings", "-o", "lv_name", "vgB")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// transaction is the transaction of the only segment of that type in a record of LVM's.
func transaction(t *testing.T, record, segment string) string {
	t.Helper()
	match := transactionOf(segment).FindStringSubmatch(record)
	if match == nil {
		t.Fatalf("no transaction of a %s in\n%s", segment, record)
	}
	return match[2]
}

func transactionOf(segment string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)(type = "` + segment + `"[^}]*?transaction_id = )(\d+)`)
}

// setTransaction gives that segment another transaction, and adds what is given.
func setTransaction(t *testing.T, record, segment string, number int, more string) string {
	t.Helper()
	if !transactionOf(segment).MatchString(record) {
		t.Fatalf("no transaction of a %s in\n%s", segment, record)
	}
	return transactionOf(segment).ReplaceAllString(record, fmt.Sprintf("${1}%d\n%s", number, more))
}
