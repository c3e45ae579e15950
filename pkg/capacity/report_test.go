package capacity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sampleReport() Report {
	return Report{
		Format: 1, Writer: "v1.2.3", BootID: "0b5d", Generation: 7,
		Changed: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), ExtentSizes: map[string]int64{"ssd": 4 * mib, "hdd": 32 * mib},
		Filesystems: map[string]Filesystem{"ssd": FilesystemXFS},
	}
}

const sampleReportText = `{"bootID":"0b5d","changed":"2030-01-02T03:04:05Z","extentSizes":{"hdd":"33554432","ssd":"4194304"},"filesystems":{"ssd":"xfs"},` +
	`"format":1,"generation":7,"writer":"v1.2.3"}`

func TestReport_RoundTrip(t *testing.T) {
	text, err := EncodeReport(sampleReport())
	if err != nil || text != sampleReportText {
		t.Fatalf("got %s, %v", text, err)
	}
	back, err := DecodeReport(text)
	if diff := cmp.Diff(sampleReport(), back); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestEncodeReport_Refuses(t *testing.T) {
	for name, change := range map[string]Report{
		"no format":            {Writer: "v1", Generation: 1},
		"no writer":            {Format: 1, Generation: 1},
		"no generation":        {Format: 1, Writer: "v1"},
		"parts of seconds":     {Format: 1, Writer: "v1", Generation: 1, Changed: time.Unix(0, 1)},
		"extent size 0":        {Format: 1, Writer: "v1", Generation: 1, ExtentSizes: map[string]int64{"a": 0}},
		"pool without name":    {Format: 1, Writer: "v1", Generation: 1, ExtentSizes: map[string]int64{"": 1}},
		"no such file system":  {Format: 1, Writer: "v1", Generation: 1, Filesystems: map[string]Filesystem{"a": "ntfs"}},
		"no file system":       {Format: 1, Writer: "v1", Generation: 1, Filesystems: map[string]Filesystem{"a": ""}},
		"file system of none":  {Format: 1, Writer: "v1", Generation: 1, Filesystems: map[string]Filesystem{"": "xfs"}},
		"more than fits there": {Format: 1, Writer: strings.Repeat("v", MaxAnnotationBytes), Generation: 1},
	} {
		if _, err := EncodeReport(change); !errors.Is(err, ErrReport) {
			t.Errorf("%s: %v, want ErrReport", name, err)
		}
	}
}

func TestDecodeReport_Strict(t *testing.T) {
	for name, text := range map[string]string{
		"empty":             "",
		"no object":         `"x"`,
		"other format":      strings.Replace(sampleReportText, `"format":1`, `"format":0`, 1),
		"unknown field":     strings.Replace(sampleReportText, `"format"`, `"more":1,"format"`, 1),
		"number of bytes":   strings.Replace(sampleReportText, `"4194304"`, `4194304`, 1),
		"negative extent":   strings.Replace(sampleReportText, `"4194304"`, `"-4194304"`, 1),
		"no such system":    strings.Replace(sampleReportText, `"xfs"`, `"ntfs"`, 1),
		"no time":           strings.Replace(sampleReportText, "2030-01-02T03:04:05Z", "yesterday", 1),
		"parts of a second": strings.Replace(sampleReportText, "05Z", "05.5Z", 1),
		"something behind":  sampleReportText + "{}",
		"256 KiB":           strings.Repeat(" ", MaxAnnotationBytes) + sampleReportText,
	} {
		if r, err := DecodeReport(text); !errors.Is(err, ErrReport) {
			t.Errorf("%s: %+v, %v, want ErrReport", name, r, err)
		}
	}
}

// A newer version may write what this one does not know; who it is must still be readable.
func TestDecodeReport_NewerFormat(t *testing.T) {
	got, err := DecodeReport(`{"format":2,"writer":"v9.0.0","extentSizes":[1],"more":{}}`)
	if diff := cmp.Diff(Report{Format: 2, Writer: "v9.0.0"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// Who counts volumes takes what can be read, and nothing that cannot be right.
func TestDecodePoolFacts(t *testing.T) {
	ssd, hdd := PoolFacts{4 * mib, FilesystemXFS}, PoolFacts{ExtentSizeBytes: 32 * mib}
	for name, c := range map[string]struct {
		text string
		want map[string]PoolFacts
	}{
		"as it is written":       {sampleReportText, map[string]PoolFacts{"ssd": ssd, "hdd": hdd}},
		"nothing":                {"", nil},
		"no JSON":                {"{", nil},
		"no object":              {`[1]`, nil},
		"null":                   {"null", nil},
		"256 KiB":                {strings.Repeat(" ", MaxAnnotationBytes) + sampleReportText, nil},
		"a newer format":         {strings.Replace(sampleReportText, `"format":1`, `"format":2,"more":[{}]`, 1), map[string]PoolFacts{"ssd": ssd, "hdd": hdd}},
		"no writer":              {strings.Replace(sampleReportText, `"writer":"v1.2.3"`, `"writer":7`, 1), map[string]PoolFacts{"ssd": ssd, "hdd": hdd}},
		"one bad size":           {strings.Replace(sampleReportText, `"33554432"`, `"-33554432"`, 1), map[string]PoolFacts{"ssd": ssd}},
		"a size that is no text": {strings.Replace(sampleReportText, `"33554432"`, `33554432`, 1), map[string]PoolFacts{"ssd": ssd}},
		"half a sector":          {strings.Replace(sampleReportText, `"33554432"`, `"33554688"`, 1), map[string]PoolFacts{"ssd": ssd}},
		"sizes of another form":  {`{"extentSizes":[1],"filesystems":{"ssd":"xfs"}}`, map[string]PoolFacts{"ssd": {Filesystem: FilesystemXFS}}},
		"a new file system":      {strings.Replace(sampleReportText, `"xfs"`, `"bcachefs"`, 1), map[string]PoolFacts{"ssd": {ExtentSizeBytes: 4 * mib}, "hdd": hdd}},
		"an empty file system":   {`{"filesystems":{"ssd":""}}`, nil},
	} {
		if diff := cmp.Diff(c.want, DecodePoolFacts(c.text)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func FuzzDecodeReport(f *testing.F) {
	f.Add(sampleReportText)
	f.Add(`{"format":2}`)
	f.Add(strings.Replace(sampleReportText, `{"ssd":"xfs"}`, "{}", 1))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := DecodeReport(text)
		if err != nil || r.Format > ReportFormat {
			return
		}
		again, err := EncodeReport(r)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		back, err := DecodeReport(again)
		if diff := cmp.Diff(r, back); diff != "" || err != nil {
			t.Fatalf("%q: %v\n%s", text, err, diff)
		}
	})
}
