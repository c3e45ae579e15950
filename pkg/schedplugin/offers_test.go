package schedplugin

import "testing"

// offerOn is a fixture with one node whose pool holds a volume on offer of 6 GiB.
func offerOn(t *testing.T, poolBytes int64) (*fixture, volumeBuilder) {
	offered := makeVolume("s", "pool-ssd", "n1", 6*gib).class("ssd")
	return newFixture(t, makeNode("n1", "pool-ssd", poolBytes), makeCSINode("n1"), makeClass("ssd", "pool-ssd"), offered), offered
}

// twoForOneOffer has two pods that fit only with the offer; a is the claim of the first.
func twoForOneOffer(t *testing.T) (f *fixture, a claimBuilder, one, two podBuilder) {
	f, _ = offerOn(t, 6*gib)
	a = makeClaim("a", "ssd", 5*gib)
	f.put(a, makeClaim("b", "ssd", 4*gib))
	return f, a, makePod("one").claiming("a"), makePod("two").claiming("b")
}

// Which volume VolumeBinding took for a pod depends on what it knew then. So one
// that is on offer counts for one scheduling cycle at a time.
func TestReserve_AnOfferCountsForOneCycleAtATime(t *testing.T) {
	f, a, one, two := twoForOneOffer(t)
	state := f.reserve(one, "n1")
	f.wantUsed("the offer is charged, the claim is not", "n1", "pool-ssd", 6*gib)
	if f.accepted(two)["n1"] {
		t.Error("the same offer was counted for a second pod")
	}
	f.permit(state, one, "n1")
	f.unreserve(state, one, "n1")
	if f.accepted(two)["n1"] {
		t.Error("the first pod's cycle may have bound the offer")
	}
	if _, err := f.ledger.Settle(f.open[0]); err != nil {
		t.Fatal(err)
	}
	if !f.accepted(two)["n1"] {
		t.Error("the offer is free again")
	}
	f.put(a.bound("s"))
	if f.accepted(two)["n1"] {
		t.Error("a claim says that it is bound to the offer; the volume's own event is late")
	}
}

// The cycle does not notice that its claim is deleted until it has written.
func TestReserve_AnOfferCountsAlthoughItsClaimIsDeleted(t *testing.T) {
	f, a, one, two := twoForOneOffer(t)
	state := f.reserve(one, "n1")
	must(t, f.caches[streamClaims].Delete(a.PersistentVolumeClaim))
	if f.accepted(two)["n1"] {
		t.Error("the ledger was not told of the deletion, and the offer is not free")
	}
	f.sync(streamClaims, keyOf(a))
	if f.accepted(two)["n1"] {
		t.Error("the ledger was told of the deletion; the offer is not free")
	}
	f.permit(state, one, "n1")
	f.unreserve(state, one, "n1")
	if !f.accepted(two)["n1"] {
		t.Error("the cycle has ended")
	}
}

// VolumeBinding takes what the cache has; the ledger is told later.
func TestOffers_OneThatHasChangedCountsNoMore(t *testing.T) {
	for name, change := range map[string]func(*fixture, volumeBuilder){
		"bound to another claim": func(f *fixture, s volumeBuilder) {
			s = s.of(makeClaim("other", "ssd", gib))
			s.ResourceVersion += "1"
			f.cache(s)
		},
		"deleted": func(f *fixture, s volumeBuilder) { must(t, f.caches[streamVolumes].Delete(s.PersistentVolume)) },
	} {
		f, offered := offerOn(t, 6*gib)
		f.put(makeClaim("c", "ssd", 5*gib))
		pod := makePod("p").claiming("c")
		if !f.accepted(pod)["n1"] {
			t.Fatalf("%s: the offer does not count at first", name)
		}
		change(f, offered)
		if f.accepted(pod)["n1"] {
			t.Errorf("%s: the offer still counts", name)
		}
	}
}

// Whether VolumeBinding takes an offer for a claim that another scheduling cycle
// holds on another node depends on how that cycle ends.
func TestOffers_AClaimReservedElsewhere(t *testing.T) {
	for _, c := range []struct {
		name      string
		poolBytes int64
		claims    []string
		alone     bool // accepted while nobody holds the claim
		held      bool
	}{
		{"it may need room of its own", 9 * gib, []string{"a"}, true, false},
		{"there is room of its own", 10 * gib, []string{"a"}, true, true},
		{"another may need room beside it", 14 * gib, []string{"a", "b"}, true, false},
		{"it may take the offer from another", 10 * gib, []string{"a", "b"}, false, false},
		{"there is room for both", 15 * gib, []string{"a", "b"}, true, true},
	} {
		f, _ := offerOn(t, c.poolBytes)
		f.put(makeNode("n2", "pool-ssd", 4*gib), makeCSINode("n2"), makeClaim("a", "ssd", 4*gib), makeClaim("b", "ssd", 5*gib))
		one, two := makePod("one").claiming("a"), makePod("two").claiming(c.claims...)
		if got := f.accepted(two)["n1"]; got != c.alone {
			t.Errorf("%s: accepted %v, want %v", c.name, got, c.alone)
		}
		f.reserve(one, "n2")
		if got := f.accepted(two)["n1"]; got != c.held {
			t.Errorf("%s: accepted %v while the claim is held, want %v", c.name, got, c.held)
		}
	}
}

// A pool that has shrunk takes no pod for a claim that is only reserved there,
// whatever else is on offer.
func TestOffers_DoNotExcuseAnOverdrawnPool(t *testing.T) {
	f, _ := offerOn(t, 14*gib)
	f.put(makeClaim("c", "ssd", 8*gib))
	one, two := makePod("one").claiming("c"), makePod("two").claiming("c")
	f.reserve(one, "n1")
	if !f.accepted(two)["n1"] {
		t.Fatal("the claim is reserved, and refused to a second pod")
	}
	f.put(makeNode("n1", "pool-ssd", 13*gib))
	if f.accepted(two)["n1"] {
		t.Error("the pool is overdrawn, and the reserved claim still accepted")
	}
}
