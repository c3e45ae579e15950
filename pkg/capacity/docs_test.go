package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/internal/doctest"
)

const classesDoc = "../../docs/storageclasses.md"

func TestDocs_EveryParameterAndNoOther(t *testing.T) {
	doc := doctest.Read(t, classesDoc)
	class := doctest.Rows(t, doc, "## Parameters")
	if diff := cmp.Diff(ClassParameterKeys(), slices.Sorted(maps.Keys(class))); diff != "" {
		t.Error(diff)
	}
	inline := doctest.Rows(t, doc, "## Inline volumes")
	all := append(slices.Collect(maps.Keys(class)), slices.Collect(maps.Keys(inline))...)
	slices.Sort(all)
	if diff := cmp.Diff(InlineParameterKeys(), slices.DeleteFunc(all, func(k string) bool { return k == ParamMkfsOptions })); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(doc, "except `mkfsOptions`") {
		t.Error("the text does not say which class parameter inline volumes do not have")
	}
	var layouts []string
	for _, l := range ClassLayouts() {
		layouts = append(layouts, string(l))
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(layouts)), slices.Sorted(maps.Keys(doctest.Rows(t, doc, "### Layouts")))); diff != "" {
		t.Error(diff)
	}
}

func TestDocs_NumbersAreThoseOfTheCode(t *testing.T) {
	doc := doctest.Read(t, classesDoc)
	sizes := doctest.Rows(t, doc, "### Sizes")
	for _, fs := range Filesystems() {
		if want := fmt.Sprintf("%d MiB", fs.MinimumBytes()>>20); len(sizes) != len(Filesystems()) || sizes[string(fs)][0] != want {
			t.Errorf("%s: got %v, want %s", fs, sizes[string(fs)], want)
		}
	}
	class := doctest.Rows(t, doc, "## Parameters")
	for key, want := range map[string]string{
		ParamStripes: fmt.Sprintf("2 to %d", MaxStripes),
		ParamMirrors: fmt.Sprintf("2 to %d", MaxCopies),
		ParamWipe:    "`zero`, `discard`, `unsafe-none`",
		ParamLayout:  "`linear`, `striped`, `raid1`",
	} {
		if !strings.Contains(class[key][1], want) {
			t.Errorf("%s: got %q, want %q", key, class[key][1], want)
		}
	}
	if want := fmt.Sprintf("without any size gets %d GiB", DefaultVolumeBytes>>30); !strings.Contains(doc, want) {
		t.Errorf("the text does not say %q", want)
	}
}

func TestDocs_ExamplesParse(t *testing.T) {
	classes, pods := 0, 0
	for _, example := range doctest.YAML(doctest.Read(t, classesDoc)) {
		if strings.Contains(example, "kind: StorageClass") {
			classes++
			checkClass(t, []byte(example))
			continue
		}
		pods++
		checkPod(t, []byte(example))
	}
	if classes < 2 || pods < 1 {
		t.Errorf("%d classes, %d pods", classes, pods)
	}
}

func checkClass(t *testing.T, data []byte) {
	t.Helper()
	var class storagev1.StorageClass
	if err := yaml.UnmarshalStrict(data, &class); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if _, err := ParseClassParameters(class.Parameters); err != nil {
		t.Errorf("class %s: %v", class.Name, err)
	}
	if class.APIVersion != "storage.k8s.io/v1" || class.Kind != "StorageClass" || class.Provisioner != DefaultDriverName ||
		class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer ||
		class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		t.Errorf("class %s: %+v", class.Name, class)
	}
}

func checkPod(t *testing.T, data []byte) {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(data, &pod); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	for _, v := range pod.Spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != DefaultDriverName {
			t.Errorf("volume %s: %+v", v.Name, v)
			continue
		}
		if _, err := ParseInlineParameters(v.CSI.VolumeAttributes, -1); err != nil {
			t.Error(err)
		}
	}
}
