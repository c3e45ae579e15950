package controller

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestNotices(t *testing.T) {
	recorder := &counter{}
	n := newNotices(recorder, time.Hour)
	start := time.Unix(1_000_000, 0)
	for i, say := range []struct {
		uid    types.UID
		reason string
		after  time.Duration
		events int64 // so far
	}{
		{"a", "R", 0, 1},
		{"a", "R", time.Minute, 1},
		{"a", "S", time.Minute, 2},
		{"b", "R", time.Minute, 3},
		{"a", "R", time.Hour - time.Second, 3},
		{"a", "R", time.Hour, 4},
		{"a", "R", 2*time.Hour - time.Second, 4},
		{"b", "R", 2 * time.Hour, 5},
	} {
		now, before := start.Add(say.after), recorder.events.Load()
		due := n.due(say.uid, say.reason, now)
		n.say(&v1.PersistentVolumeClaim{}, say.uid, "Warning", say.reason, "m", now)
		got := recorder.events.Load()
		if got != say.events || due != (got > before) {
			t.Errorf("step %d: %d events, want %d; due %v", i, got, say.events, due)
		}
	}
	if len(n.sent) > 2 {
		t.Errorf("it keeps what keeps nothing back: %v", n.sent)
	}
}
