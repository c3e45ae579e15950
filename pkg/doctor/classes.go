package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/controller"
	"github.com/csi-local/csi-local/pkg/inspect"
)

func classChecks() []Check {
	return []Check{
		{"class-none", Warning, "a claim can get no volume of the driver without one", findNoClass},
		{"class-immediate", Error, "nobody has chosen a node yet when the volume should be made, so its claims wait for ever", findImmediate},
		{"class-parameters", Error, "no volume is made for a class that cannot be read, so its claims wait for ever", findParameters},
		{"class-pool", Warning, "its claims wait for ever for a pool that no node has", findClassPool},
		{"class-on-lost-node", Warning, "claims of lost nodes are kept, whatever was meant", findLostNodePolicy},
	}
}

func findNoClass(s *inspect.Snapshot) []Problem {
	return problemIf(len(s.Classes) == 0 && s.Install.DaemonSet != nil, Problem{
		Object: Object{Kind: "storageclass", Name: "local-dynamic-ssd"}, Wrong: "there is no StorageClass of provisioner " + s.Driver,
		Command: reinstall(s), Repairs: true,
	})
}

func findImmediate(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
			continue
		}
		found = append(found, Problem{
			Object: classObject(c), Wrong: "volumeBindingMode is Immediate",
			Command: remake("storageclass", "", c.Name, "s/^volumeBindingMode: .*/volumeBindingMode: WaitForFirstConsumer/"), Repairs: true,
		})
	}
	return found
}

// editClass is for a class whose right parameters only a person knows.
func editClass(name string) string {
	return fmt.Sprintf("%[2]s > %[1]s.yaml; vi %[1]s.yaml; kubectl replace --force -f %[1]s.yaml", name, original("storageclass", "", name))
}

func findParameters(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Classes {
		c := &s.Classes[i]
		_, err := capacity.ParseClassParameters(c.Parameters)
		if err == nil {
			continue
		}
		p := Problem{Object: classObject(c), Wrong: oneLine(err), Command: editClass(c.Name)}
		if expressions, ok := mend(err); ok {
			p.Command, p.Repairs = remake("storageclass", "", c.Name, expressions...), true
		}
		found = append(found, p)
	}
	return found
}

// mend renames each unknown parameter to the one that was probably meant; false if
// anything else is wrong.
func mend(err error) (expressions []string, ok bool) {
	problems := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		problems = joined.Unwrap()
	}
	for _, problem := range problems {
		var p *capacity.ParameterError
		if !errors.As(problem, &p) || !slices.Contains(capacity.ClassParameterKeys(), p.Want) || strings.ContainsAny(p.Key, "/'\\") {
			return nil, false
		}
		expressions = append(expressions, fmt.Sprintf("s|^  %s: |  %s: |", strings.ReplaceAll(p.Key, ".", `\.`), p.Want))
	}
	return expressions, true
}

// findClassPool leaves classes alone that nobody uses: the chart brings one for hard disks
// to clusters that have none.
func findClassPool(s *inspect.Snapshot) (found []Problem) {
	names := s.PoolNames()
	if len(names) == 0 {
		return nil // nothing is known
	}
	wait := map[string]int{}
	for _, claim := range waiting(s) {
		wait[storagehelpers.GetPersistentVolumeClaimClass(claim)]++
	}
	for i := range s.Classes {
		c := &s.Classes[i]
		parameters, err := capacity.ParseClassParameters(c.Parameters)
		if wait[c.Name] == 0 || err != nil || slices.Contains(names, parameters.Pool) {
			continue
		}
		p := Problem{
			Object: classObject(c), Command: editClass(c.Name),
			Wrong: fmt.Sprintf("no node publishes pool %s, for which %s asked; there are: %s", parameters.Pool, Plural(wait[c.Name], "claim"), strings.Join(names, ", ")),
		}
		if near := capacity.ClosestName(parameters.Pool, names); near != "" && !poolHasClass(s, near) {
			p.Command, p.Repairs = remake("storageclass", "", c.Name, "s/^  pool: .*/  pool: "+near+"/"), true
		}
		found = append(found, p)
	}
	return found
}

// poolHasClass tells that a class is of that pool, so that another one is hardly meant to be.
func poolHasClass(s *inspect.Snapshot, pool string) bool {
	return slices.ContainsFunc(s.Classes, func(c storagev1.StorageClass) bool {
		parameters, err := capacity.ParseClassParameters(c.Parameters)
		return err == nil && parameters.Pool == pool
	})
}

func findLostNodePolicy(s *inspect.Snapshot) (found []Problem) {
	key := controller.LostNodeAnnotation(s.Driver)
	for i := range s.Classes {
		value, said := s.Classes[i].Annotations[key]
		if policy := controller.LostNodePolicy(value); !said || policy == controller.PolicyKeep || policy == controller.PolicyDeleteClaim {
			continue
		}
		found = append(found, Problem{
			Object: classObject(&s.Classes[i]), Wrong: fmt.Sprintf("annotation %s is %q; it may be %s or %s", key, value, controller.PolicyKeep, controller.PolicyDeleteClaim),
			Command: fmt.Sprintf("kubectl annotate storageclass %s --overwrite %s=%s", s.Classes[i].Name, key, controller.PolicyKeep), Repairs: true,
		})
	}
	return found
}
