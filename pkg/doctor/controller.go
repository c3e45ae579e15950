package doctor

import (
	"github.com/csi-local/csi-local/pkg/controller"
	"github.com/csi-local/csi-local/pkg/inspect"
)

func controllerChecks() []Check {
	const lost = "volumes of lost nodes hang in Terminating, claims that wait for ever are told nothing, and no volume is expanded"
	return []Check{
		{"controller-missing", Warning, lost, findNoController},
		{"controller-down", Error, lost, findControllerDown},
		{"controller-lease", Error, lost, findControllerLease},
	}
}

func findNoController(s *inspect.Snapshot) []Problem {
	return problemIf(s.Install.DaemonSet != nil && s.Install.Controller == nil, Problem{
		Object:  Object{Kind: "deployment", Namespace: s.Install.Namespace, Name: s.Install.Release + "-controller"},
		Wrong:   "there is no such Deployment",
		Command: reinstall(s), Repairs: true,
	})
}

func findControllerDown(s *inspect.Snapshot) []Problem { return findDown(s, s.Install.Controller) }

func findControllerLease(s *inspect.Snapshot) []Problem {
	in := &s.Install
	return findStale(s, in.Controller, in.ControllerLease, in.Namespace, controller.LeaseName(s.Driver))
}
