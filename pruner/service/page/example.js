// A list on which each kind of decision can be seen.

export const QUERY = "How long are backups kept, and can a deleted one be restored?";

export const CHUNKS = [
  "Daily backups are kept for 14 days, weekly ones for 8 weeks. Older ones are removed at 03:00 UTC.",
  "Backups run every night and are encrypted before they leave the host.",
  "A removed backup stays in the vault for 72 hours. Until then an owner can bring it back under Storage › Vault.",
  "The vault holds what was deleted: volumes, snapshots and backups. It is not counted against the quota.",
  "To choose a restore point, open the volume and pick a day. Restoring takes about one minute per 10 GB.",
  "Prices for backup storage are listed per gigabyte and month. The first 50 GB of every project are free of charge.",
  "Owners and admins see every project. Members see those they were invited to, and cannot delete anything.",
  "The status page shows planned maintenance. Subscribe to it to be told two days ahead.",
  "Our office in Bremen is closed between Christmas and New Year. Support answers urgent requests meanwhile.",
];
