# The image of csi-local: LVM and the filesystem tools of one Debian release, so that
# what runs does not depend on the node, and the binary that was built outside
# (make image). Works for every architecture that Debian has.
FROM docker.io/library/debian:bookworm-slim

# kmod: LVM loads the kernel modules that its volume types need.
# mount, util-linux: mount, umount, blkid, fsck.
RUN export DEBIAN_FRONTEND=noninteractive \
 && apt-get update -q \
 && apt-get install -qy --no-install-recommends \
        btrfs-progs \
        dmsetup \
        e2fsprogs \
        kmod \
        lvm2 \
        mount \
        thin-provisioning-tools \
        util-linux \
        xfsprogs \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*

ARG TARGETARCH
ARG VERSION=unknown
LABEL org.opencontainers.image.title="csi-local" \
      org.opencontainers.image.description="CSI driver for node-local volumes on LVM" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/csi-local/csi-local" \
      org.opencontainers.image.version="${VERSION}"

COPY LICENSE /usr/share/doc/csi-local/LICENSE
COPY bin/${TARGETARCH}/csi-local /usr/local/bin/csi-local

ENTRYPOINT ["/usr/local/bin/csi-local"]
